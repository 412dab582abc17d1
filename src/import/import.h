/* import.h -- files and folders of any known format into a store that is being built.
 *
 * A format is a line of import.def: facts, sniff, read. Sniffing looks at the head of the
 * content only, never at the name. Several sources become one trace: each is read with whatever
 * origin its times have, and import_all() moves them to a common one afterwards (align.c). */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H

#include "base/io.h"
#include "store/store.h"

#define IMPORT_SNIFF_MAX 65536

struct sources; /* all that one import_all() reads */

struct import_source {
    const char *path; /* for messages and for files beside it */
    const uint8_t *data;
    size_t len;
    bool cut;                 /* the packed stream ended early */
    struct io_unpack *packed; /* for those who stream: all of it; data is just the head then */
    int index;                /* which of the sources it is, from 0: a row of the table source */
    int count;                /* of how many that are known so far */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* or NULL */
    void *user;
    struct sources *sources; /* or NULL: nobody wants to know */
    const void *reader;      /* the reader's own, where one hands it on to another; else NULL */
};

struct importer {
    const char *name;      /* the --format value, also used in messages */
    const char *extension; /* usual one, with the dot; "" for a folder */
    const char *doc;
    bool (*sniff)(const uint8_t *head, size_t len); /* pure; len <= IMPORT_SNIFF_MAX */
    int (*read)(struct store *st, const struct import_source *src, opm_error *err);
    bool streams; /* read() takes a packed file as import_source.packed */
    bool summary; /* it sums up what another file may tell in full: read behind the others */
    /* For a folder that is one profile: whether this is such a one, judged by what is in it, and
     * the reader, for which data is NULL. Either pair may be NULL, not both. A folder that nobody
     * claims is read file by file. */
    bool (*sniff_dir)(const char *path);
    int (*read_dir)(struct store *st, const struct import_source *src, opm_error *err);
    /* If not NULL: a folder that sniff_dir() claims is several profiles. Calls each with the
     * folders that read_dir() is to be given, one for each of them. */
    int (*parts)(const char *path, int (*each)(void *ctx, const char *part), void *ctx,
                 opm_error *err);
};

extern const struct importer importers[]; /* specific before general; ends with a NULL name */

/* Sources that hold captures of graphs which other sources replay; see graph/capture.h. What they
 * recorded is no part of the run that the others tell of. `{0}` is empty. */
struct import_captures {
    const char **path; /* of memory of its own */
    size_t n, cap;
    bool left_out; /* import_all() left these out, instead of looking for them */
};
void import_captures_release(struct import_captures *c);

struct import_options {
    const char *format;                                         /* importer name, or NULL: detect */
    uint64_t max_bytes;                                         /* as io_map() */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* or NULL */
    void *user;
    /* NULL: a capture is a trace like any. Else those that were found are put here if others replay
     * graphs: the caller begins anew with a store without them. */
    struct import_captures *captures;
};

/* Read all paths, files or folders, into st and bring their clocks in line. store_finish() is left
 * to the caller. */
int import_all(struct store *st, const char *const *paths, size_t npaths,
               const struct import_options *opts, opm_error *err);

/* The name of the importer for a file, or a folder that is one profile; NULL: none. */
const char *import_detect(const char *path);

/* What a reader can say about its source. */

/* Its time 0 in ns since 1970 (UTC); 0 if its times are such themselves. */
void import_set_realtime(const struct import_source *src, int64_t unix_ns);
/* Its time 0 on the monotonic clock of a machine since `boot` (any text that names the boot): more
 * exact between sources of one machine. */
void import_set_monotonic(const struct import_source *src, const char *boot, int64_t ns);
/* A counter that all processes since one boot share, as a source used it: read together with the
 * monotonic clock when it began and when it ended. */
struct import_ticks {
    unsigned counter; /* sources with another number use another one */
    uint64_t first, last;
    int64_t first_ns, last_ns;
    double rate; /* ns per tick, by which its times were made */
};
/* Its times are read off a counter; after import_set_monotonic(), which names the boot. True: a
 * source before it used the same, and so, *out; the times of this one must be made the same way,
 * from its first tick on and with its rate. Then equal ticks are equal times, whatever the rate
 * turns out to be in the end, and what one source saw inside of what another one saw is inside. */
bool import_set_ticks(const struct import_source *src, const struct import_ticks *ticks,
                      struct import_ticks *out);
/* For all of its tracks that say nothing themselves. */
void import_set_instance(const struct import_source *src, int64_t instance);
void import_set_rank(const struct import_source *src, int64_t rank);
/* A fact: a row of meta. Those of the first source keep their keys, those of others begin with
 * "file1." and so on; but what one says of a recording as a whole ("record.") keeps its key, if no
 * other one says it. 0 or OPM_ENOMEM. */
int import_meta(struct store *st, const struct import_source *src, const char *key,
                const char *value);
/* A thread of a process, as a recording saw it. */
struct import_thread {
    const char *process;      /* any text that tells processes of all machines and times apart */
    const uint8_t *recording; /* 16 bytes: copies of one do not count as two that saw it */
    int64_t tid;
};
/* The track on which the thread stands already, or OPM_NULL_ID: another source, recorded in the
 * same process at the same time, had it. */
uint32_t import_thread_track(const struct import_source *src, const struct import_thread *t);
/* It stands on this one. 0 or OPM_ENOMEM. */
int import_thread_add(const struct import_source *src, const struct import_thread *t,
                      uint32_t track);
/* For a reader of what sums a run up: the rows of a source of `format` that tells of the same run
 * event by event, because it is named alike but for folder and extension (or was left out for one
 * that tells the same). False: there is none, and the sums are all that is known. */
bool import_same_run(const struct import_source *src, const char *format, struct store_part *out);
/* It captures graphs, but replays none; or it replays some. */
void import_set_graphs(const struct import_source *src, bool captures, bool replays);
/* What the source was used for, as the table source says. 0 or OPM_ENOMEM. */
int import_note(const struct import_source *src, const char *note);
/* A file of a folder that is one profile: what it was used for, or why it was not. 0 or OPM_ENOMEM.
 */
enum import_state { IMPORT_READ, IMPORT_SKIPPED, IMPORT_FAILED };
int import_part(const struct import_source *src, const char *path, enum import_state state,
                const char *note);

/* The readers of every format, as import.def lists them. */
#define FILE_IMPORTER(name, extension, doc, fn)       \
    bool fn##_sniff(const uint8_t *head, size_t len); \
    int fn##_read(struct store *st, const struct import_source *src, opm_error *err);
#define STREAM_IMPORTER FILE_IMPORTER
#define SUMMARY_IMPORTER FILE_IMPORTER
#define FOLDER_IMPORTER(name, doc, fn)     \
    bool fn##_sniff_dir(const char *path); \
    int fn##_read_dir(struct store *st, const struct import_source *src, opm_error *err);
#define PLACE_IMPORTER(name, extension, doc, fn)                                          \
    FILE_IMPORTER(name, extension, doc, fn)                                               \
    FOLDER_IMPORTER(name, doc, fn)                                                        \
    int fn##_parts(const char *path, int (*each)(void *ctx, const char *part), void *ctx, \
                   opm_error *err);
#include "import/import.def"

#endif
