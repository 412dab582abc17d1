/* import.h -- bytes of any known format into a store that is being built.
 *
 * A format is a row in the table of import.c: facts, sniff, read. Sniffing looks at the head of the
 * content only, never at the name. */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H

#include "base/io.h"
#include "store/store.h"

#define IMPORT_SNIFF_MAX 4096

struct import_source {
    const char *path; /* for messages and for files beside it */
    const uint8_t *data;
    size_t len;
    bool cut;  /* the packed stream ended early */
    int index; /* which of the given files it is, from 0 */
    int count; /* of how many */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* or NULL */
    void *user;
};

struct importer {
    const char *name;      /* the --format value, also used in messages */
    const char *extension; /* usual one, with the dot */
    const char *doc;
    bool (*sniff)(const uint8_t *head, size_t len); /* pure; len <= IMPORT_SNIFF_MAX */
    int (*read)(struct store *st, const struct import_source *src, opm_error *err);
};

extern const struct importer importers[]; /* specific before general; ends with a NULL name */

/* Open path, detect its format (or use `format` if not NULL) and read it into st. */
int import_path(struct store *st, const char *path, const char *format, uint64_t max_bytes,
                int index, int count, int (*progress)(void *, uint64_t, uint64_t), void *user,
                opm_error *err);

/* One per format. */
bool opm_sniff(const uint8_t *head, size_t len);
int opm_read(struct store *st, const struct import_source *src, opm_error *err);
bool perfetto_sniff(const uint8_t *head, size_t len);
int perfetto_read(struct store *st, const struct import_source *src, opm_error *err);
bool onednn_sniff(const uint8_t *head, size_t len);
int onednn_read(struct store *st, const struct import_source *src, opm_error *err);
bool xplane_sniff(const uint8_t *head, size_t len);
int xplane_read(struct store *st, const struct import_source *src, opm_error *err);
bool tensorflow_sniff(const uint8_t *head, size_t len);
int tensorflow_read(struct store *st, const struct import_source *src, opm_error *err);
bool tensorrt_sniff(const uint8_t *head, size_t len);
int tensorrt_read(struct store *st, const struct import_source *src, opm_error *err);
bool openvino_sniff(const uint8_t *head, size_t len);
int openvino_read(struct store *st, const struct import_source *src, opm_error *err);

#endif
