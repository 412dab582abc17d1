/* import.c -- which importer reads a file. */
#include "import/import.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>

const struct importer importers[] = {
    /* First match wins: specific before general. A new format is one line here and its two
     * functions in import.h. */
    { "opm", ".opm", "opmeter's own recording", opm_sniff, opm_read },
    { "xplane", ".xplane.pb", "profile of JAX, TensorFlow or PyTorch/XLA", xplane_sniff,
      xplane_read },
    { "tensorflow", ".pb", "step statistics of TensorFlow (RunMetadata, StepStats), binary or text",
      tensorflow_sniff, tensorflow_read },
    { "perfetto", ".pftrace", "Perfetto's native trace: track events", perfetto_sniff,
      perfetto_read },
    { "tensorrt", ".json", "profile, times or layers that trtexec exports as JSON", tensorrt_sniff,
      tensorrt_read },
    { "openvino", ".csv", "counters report of OpenVINO's benchmark_app", openvino_sniff,
      openvino_read },
    { "onednn", ".log", "verbose log of oneDNN, DNNL or MKL-DNN, mixed with other text or not",
      onednn_sniff, onednn_read },
    { NULL, NULL, NULL, NULL, NULL },
};

static const struct importer *find_by_name(const char *name)
{
    for (const struct importer *i = importers; i->name; i++)
        if (strcmp(i->name, name) == 0)
            return i;
    return NULL;
}

static const struct importer *find_by_content(const uint8_t *data, size_t len)
{
    for (const struct importer *i = importers; i->name; i++)
        if (i->sniff(data, MIN(len, (size_t)IMPORT_SNIFF_MAX)))
            return i;
    return NULL;
}

/* Names of all formats, "opm, chrome". */
static void list_names(char *to, size_t size)
{
    size_t n = 0;

    to[0] = '\0';
    for (const struct importer *i = importers; i->name && n < size; i++)
        n += (size_t)snprintf(to + n, size - n, "%s%s", n ? ", " : "", i->name);
}

static bool is_text(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] == 0x7f || (data[i] < 0x20 && !(data[i] >= '\t' && data[i] <= '\r')))
            return false;
    return true;
}

/* A few words on what content that nobody reads might be. */
static void describe(const uint8_t *data, size_t len, char *to, size_t size)
{
    static const struct {
        const char *magic;
        size_t len;
        const char *what;
    } known[] = {
        { "\177ELF", 4, "a program or library (ELF)" },
        { "SQLite format 3", 16, "an SQLite database" },
        { "PK\3\4", 4, "a ZIP archive (or XLSX, NPZ)" },
        { "\x93NUMPY", 6, "a NumPy array" },
        { "\x89PNG", 4, "a PNG image" },
        { "%PDF", 4, "a PDF document" },
        { "\xfd"
          "7zXZ",
          5, "an xz archive" },
        { "BZh", 3, "a bzip2 archive" },
        { "\xc1\xfc\x1f\xc1", 4, "a CTF (LTTng) stream" },
        { "PERFILE2", 8, "a perf.data file" },
    };
    size_t head = MIN(len, (size_t)IMPORT_SNIFF_MAX), skip = 0;

    if (len == 0) {
        snprintf(to, size, "an empty file");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (len >= known[i].len && memcmp(data, known[i].magic, known[i].len) == 0) {
            snprintf(to, size, "%s", known[i].what);
            return;
        }
    }
    if (is_text(data, head)) {
        if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
            skip = 3;
        while (skip < head && (data[skip] == ' ' || (data[skip] >= '\t' && data[skip] <= '\r')))
            skip++;
        if (skip < head && (data[skip] == '{' || data[skip] == '['))
            snprintf(to, size, "JSON of another kind");
        else if (skip < head && data[skip] == '<')
            snprintf(to, size, "HTML or XML");
        else
            snprintf(to, size, "%s", skip == len ? "blank text" : "text");
        return;
    }
    head = MIN(len, (size_t)8);
    skip = (size_t)snprintf(to, size, "binary data (");
    for (size_t i = 0; i < head; i++)
        skip += (size_t)snprintf(to + skip, size - skip, "%s%02x", i ? " " : "", data[i]);
    snprintf(to + skip, size - skip, "%s)", len > head ? " ..." : "");
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static int unknown_content(const char *path, const struct io_map *m, opm_error *err)
{
    char names[300], what[100];

    list_names(names, sizeof(names));
    describe(m->data, m->len, what, sizeof(what));
    return opm__fail(err, OPM_EFORMAT,
                     "%s: not a trace that opmeter knows: looks like %s%s; it reads: %s", path,
                     what, m->packed ? ", packed" : "", names);
}

int import_path(struct store *st, const char *path, const char *format, uint64_t max_bytes,
                int index, int count, int (*progress)(void *, uint64_t, uint64_t), void *user,
                opm_error *err)
{
    const struct importer *importer = NULL;
    struct import_source src;
    struct io_map m = { 0 };
    int rc;

    if (format) {
        importer = find_by_name(format);
        if (!importer) {
            char names[300];

            list_names(names, sizeof(names));
            return opm__fail(err, OPM_ENOTFOUND, "no import format '%s'; there are: %s", format,
                             names);
        }
    }
    rc = io_map(&m, path, max_bytes, err);
    if (rc < 0)
        return rc;
    if (!format && ends_with(path, ".opm-live")) {
        io_map_release(&m);
        return opm__fail(err, OPM_EFORMAT,
                         "%s: this is the live buffer of a recording; open '%.*s' instead", path,
                         (int)(strlen(path) - strlen("-live")), path);
    }
    if (!importer)
        importer = find_by_content(m.data, m.len);
    src = (struct import_source){ .path = path,
                                  .data = m.data,
                                  .len = m.len,
                                  .cut = m.cut,
                                  .index = index,
                                  .count = count,
                                  .progress = progress,
                                  .user = user };
    rc = importer ? importer->read(st, &src, err) : unknown_content(path, &m, err);
    io_map_release(&m);
    return rc;
}
