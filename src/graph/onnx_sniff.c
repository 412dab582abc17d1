/* onnx_sniff.c -- say what a file that is not ONNX probably is, so that the user knows which one
 * was meant. */
#include "base/utf8.h"
#include "graph/onnx_int.h"

#include <string.h>

static const struct {
    size_t at;
    const char *bytes;
    size_t len;
    const char *what;
} magics[] = {
    { 0, "version https://git-lfs", 23, "a Git LFS pointer: the file itself was not downloaded" },
    { 0, "PK\003\004", 4, "a zip archive (PyTorch .pt, Keras .keras, NumPy .npz)" },
    { 0, "\177ELF", 4, "a program or library (ELF)" },
    { 0, "\211HDF", 4, "HDF5 (Keras .h5)" },
    { 0, "GGUF", 4, "GGUF (llama.cpp)" },
    { 4, "TFL3", 4, "TensorFlow Lite" },
    { 4, "ORTM", 4, "ONNX Runtime's own format (.ort)" },
    { 0, "7767517", 7, "an ncnn .param file" },
    { 0, "\223NUMPY", 6, "a NumPy array (.npy)" },
    { 0, "mgb", 3, "a MegEngine model" },
    { 0, "mgv2", 4, "a MegEngine model" },
    { 0, "\200\002", 2, "a Python pickle (old PyTorch .pt)" },
    { 0, "\200\004", 2, "a Python pickle" },
    { 0, "\211PNG", 4, "a PNG image" },
    { 0, "\377\330\377", 3, "a JPEG image" },
    { 0, "%PDF", 4, "a PDF document" },
    { 0, "OPM", 3, "an opmeter trace" },
    { 0, "SQLite format 3", 15, "an SQLite database" },
    { 257, "ustar", 5, "a tar archive" },
};

/* The first byte that is not white space; 0 if there is none near. */
static int first_text(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < MIN(len, (size_t)64); i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r' && p[i] != '\n')
            return p[i];
    return 0;
}

/* Is the beginning UTF-8 without control characters? */
static bool all_text(const uint8_t *p, size_t len)
{
    size_t end = MIN(len, (size_t)256);

    for (size_t i = 0; i < end;) {
        uint32_t c;

        i += utf8_next((const char *)p + i, len - i, &c);
        if (c == UTF8_BAD || (c < 0x20 && c != '\t' && c != '\r' && c != '\n' && c != '\f'))
            return false;
    }
    return len > 0;
}

const char *ld_looks_like(const uint8_t *p, size_t len)
{
    if (len == 0)
        return "an empty file";
    for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
        if (len >= magics[i].at + magics[i].len &&
            memcmp(p + magics[i].at, magics[i].bytes, magics[i].len) == 0)
            return magics[i].what;
    if (len >= 10 && p[8] == '{' && p[9] == '"' && p[5] == 0 && p[6] == 0 && p[7] == 0)
        return "safetensors (weights without a graph)";
    if (!all_text(p, len))
        return NULL;
    switch (first_text(p, len)) {
    case '{':
    case '[':
        return "JSON";
    case '<':
        return "XML, HTML or ONNX's text form";
    default:
        return "a text file";
    }
}
