/* sources.h -- the files that one trace is made of, for the files of import/ that open them.
 *
 * import.c reads a file, folder.c walks a folder, same_run.c knows which files tell of the same
 * run, align.c brings the clocks of all in line and writes the table source. */
#ifndef IMPORT_SOURCES_H
#define IMPORT_SOURCES_H

#include "base/arena.h"
#include "import/import.h"

#include <sys/types.h>

#define SAME_RUN_ROOM 33 /* 32 hexadecimal digits */

/* Where time 0 of a source lies on clocks that others may share. */
struct source_clock {
    int64_t realtime_ns; /* since 1970; OPM_NULL_I64: unknown */
    const char *boot;    /* NULL: unknown */
    int64_t monotonic_ns;
    struct import_ticks ticks; /* rate 0: unknown */
    size_t leader;             /* the source whose ticks and rate its times are made by */
};

/* A thread that a source has a track for; see struct import_thread. */
struct source_thread {
    const char *process;
    uint8_t recording[16];
    int64_t tid;
    uint32_t track;
};

struct source {
    const char *path;
    const char *format; /* NULL: none */
    const char *note;   /* what it was used for, or why not; NULL: nothing to say */
    enum import_state state;
    int64_t bytes;          /* of the file as it lies there; OPM_NULL_I64: a folder */
    int64_t instance, rank; /* OPM_NULL_I64: unknown */
    bool captures, replays; /* graphs; see import_set_graphs() */
    struct source_clock clock;
    struct store_part part; /* what it added */
    int64_t start_ns;    /* where that begins, before it is moved; OPM_NULL_I64: it has no times */
    int64_t offset_ns;   /* added to its times */
    double stretch;      /* and so much of them */
    int64_t moved_ns;    /* where its own beginning went by that */
    const char *aligned; /* by what; NULL: it was not moved, or there was nothing to move */
};

/* A file that is no source of its own: one of a folder that was read as one profile, or one that
 * was not read. */
struct source_file {
    const char *path;
    const char *note;
    enum import_state state;
    int64_t bytes;
    uint32_t part_of; /* a source, or OPM_NULL_ID */
};

/* A file that was found and is read behind the others: it sums up what one of them may tell. */
struct source_later {
    const char *path;
    const struct importer *importer;
    bool named; /* by the user: that it can't be read is a failure */
};

/* A run that a file told of, by its mark; see same_run.c. */
struct source_run {
    char id[SAME_RUN_ROOM];
    const char *path;
    size_t source; /* that was read for it */
};

struct sources {
    struct store *st;
    const struct import_options *opts;
    const struct importer *importer; /* of opts->format, or NULL */
    struct source *item;
    size_t n, cap;
    struct source_file *file;
    size_t nfile, file_cap;
    struct source_thread *thread;
    size_t nthread, thread_cap;
    struct source_later *later;
    size_t nlater, later_cap;
    struct source_run *run;
    size_t nrun, run_cap;
    struct arena strings;
};

/* The mark of the run that a file or folder tells of: the id of the recording that it is or was
 * made of, which opmeter's files carry, if it has one. 0 or OPM_ENOMEM. */
int same_run_mark(const struct importer *importer, const char *path, char out[SAME_RUN_ROOM],
                  bool *found);
/* The file that told of the run before; NULL: none did. */
const struct source_run *same_run_told(const struct sources *s, const char *id);
/* A file tells of it, too; source is the one that was or will be read for it. 0 or OPM_ENOMEM. */
int same_run_tell(struct sources *s, const char *id, const char *path, size_t source);

/* Map a file the way an importer wants it. */
int source_map(struct sources *s, const struct importer *importer, const char *path,
               struct io_map *m, opm_error *err);
/* Read what importer knows as `path`. m: the file's bytes, or NULL for a folder. */
int source_read(struct sources *s, const struct importer *importer, const char *path,
                const struct io_map *m, opm_error *err);
/* note: what it was used for or why it was not; NULL: nothing to say. 0 or OPM_ENOMEM. */
int source_file(struct sources *s, const char *path, enum import_state state, const char *note,
                uint32_t part_of);

const struct importer *importer_of_content(const struct sources *s, const uint8_t *data,
                                           size_t len);
const struct importer *importer_of_folder(const struct sources *s, const char *path);
/* The names of all formats, "opm, chrome". */
#define IMPORT_NAMES_ROOM 600
void importer_names(char to[IMPORT_NAMES_ROOM]);
/* A few words on what content that nobody reads might be. */
void describe_content(const uint8_t *data, size_t len, char *to, size_t size);

/* Once all others are read: see struct source_later. 0 or OPM_ENOMEM. */
int source_put_later(struct sources *s, const struct importer *importer, const char *path,
                     bool named);
/* It could not be read, and the others are read nonetheless; OPM_ENOMEM and OPM_ELIMIT are handed
 * back. */
int source_failed(struct sources *s, const char *path, int rc, const opm_error *why);

int import_file(struct sources *s, const char *path, opm_error *err);
int import_folder(struct sources *s, const char *path, opm_error *err);
/* Once all are read. 0 or OPM_ENOMEM. */
int sources_align(struct sources *s);

#endif
