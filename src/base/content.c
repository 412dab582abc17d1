/* content.c -- what a file is, by its first bytes; see content.h. */
#include "base/content.h"

#include <string.h>

static const struct {
    size_t at;
    const char *bytes;
    size_t len;
    enum content_kind kind;
    const char *what;
} marks[] = {
    { 0, "version https://git-lfs", 23, CONTENT_OTHER,
      "a Git LFS pointer: the file itself was not downloaded" },
    { 0, "PK\003\004", 4, CONTENT_OTHER,
      "a zip archive (PyTorch .pt, Keras .keras, NumPy .npz, .xlsx)" },
    { 0, "\177ELF", 4, CONTENT_OTHER, "a program or library (ELF)" },
    { 0, "\211HDF", 4, CONTENT_MODEL, "HDF5 (Keras .h5)" },
    { 0, "GGUF", 4, CONTENT_MODEL, "GGUF (llama.cpp)" },
    { 4, "TFL3", 4, CONTENT_MODEL, "TensorFlow Lite" },
    { 4, "ORTM", 4, CONTENT_MODEL,
      "ONNX Runtime's own format (.ort); give the .onnx file that it was made from" },
    { 0, "7767517", 7, CONTENT_MODEL, "an ncnn .param file" },
    { 0, "\223NUMPY", 6, CONTENT_OTHER, "a NumPy array (.npy)" },
    { 0, "mgb", 3, CONTENT_MODEL, "a MegEngine model" },
    { 0, "mgv2", 4, CONTENT_MODEL, "a MegEngine model" },
    { 0, "\200\002", 2, CONTENT_OTHER, "a Python pickle (old PyTorch .pt)" },
    { 0, "\200\004", 2, CONTENT_OTHER, "a Python pickle" },
    { 0, "\211PNG", 4, CONTENT_OTHER, "a PNG image" },
    { 0, "\377\330\377", 3, CONTENT_OTHER, "a JPEG image" },
    { 0, "%PDF", 4, CONTENT_OTHER, "a PDF document" },
    { 0, "OPM", 3, CONTENT_OTHER, "an opmeter trace" },
    { 0, "SQLite format 3", 16, CONTENT_OTHER, "an SQLite database" },
    { 0, "\3757zXZ", 5, CONTENT_OTHER, "an xz archive" },
    { 0, "BZh", 3, CONTENT_OTHER, "a bzip2 archive" },
    { 0, "\301\374\037\301", 4, CONTENT_OTHER, "a CTF (LTTng) stream" },
    { 0, "PERFILE2", 8, CONTENT_OTHER, "a perf.data file" },
    { 257, "ustar", 5, CONTENT_OTHER, "a tar archive" },
};

#define IR_VERSION_MAX 64 /* far beyond what there is */

/* ModelProto: its first field is the version, and a text or a message follows. */
static bool is_onnx(const uint8_t *p, size_t len)
{
    /* producer name, version and domain; doc, graph, opset */
    static const uint8_t next[] = { 0x12, 0x1a, 0x22, 0x32, 0x3a, 0x42 };

    return len > 2 && p[0] == 0x08 && p[1] > 0 && p[1] < IR_VERSION_MAX &&
           memchr(next, p[2], sizeof(next));
}

struct content content_of(const void *head, size_t len)
{
    const uint8_t *p = head;

    for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
        if (len >= marks[i].at + marks[i].len &&
            memcmp(p + marks[i].at, marks[i].bytes, marks[i].len) == 0)
            return (struct content){ marks[i].kind, marks[i].what };
    if (len >= 10 && p[8] == '{' && p[9] == '"' && p[5] == 0 && p[6] == 0 && p[7] == 0)
        return (struct content){ CONTENT_MODEL, "safetensors (weights without a graph)" };
    if (is_onnx(p, len))
        return (struct content){ CONTENT_ONNX, "an ONNX model" };
    return (struct content){ CONTENT_UNKNOWN, NULL };
}
