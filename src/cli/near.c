/* near.c -- what was probably meant by a name that a trace or a folder does not have; see cli.h. */
#include "cli/cli.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES_MAX 10000 /* of a folder that are looked at */

/* nearest_try() of a candidate that does not stay: kept in *best while it is the best. */
static void try_passing(struct nearest *n, const char *candidate, struct buf *best)
{
    const char *before = n->best;

    nearest_try(n, candidate);
    if (n->best != before) {
        buf_clear(best);
        buf_adds(best, candidate);
        n->best = buf_str(best);
    }
}

bool cli_near_text(opm_trace *t, const char *sql, const char *word, struct buf *best)
{
    struct nearest n = { .word = word };
    opm_rows *r = NULL;
    bool has = false;

    if (opm_trace_query(t, sql, &r, NULL) == 0) {
        while (opm_rows_next(r, NULL) > 0) {
            const char *text = opm_rows_text(r, 0, NULL);

            has |= text && strcmp(text, word) == 0;
            if (text)
                try_passing(&n, text, best);
        }
    }
    opm_rows_close(r);
    return has;
}

const char *cli_near_file(const char *path, struct buf *best)
{
    const char *slash = strrchr(path, '/');
    struct nearest n = { .word = slash ? slash + 1 : path };
    struct buf folder = { 0 };
    DIR *dir = NULL;

    buf_add(&folder, path, slash ? (size_t)(slash + 1 - path) : 0);
    if (*n.word && access(path, F_OK) < 0 && !folder.failed)
        dir = opendir(folder.len ? buf_str(&folder) : ".");
    for (int i = 0; dir && i < ENTRIES_MAX; i++) {
        const struct dirent *e = readdir(dir);

        if (!e)
            break;
        if (e->d_name[0] != '.')
            try_passing(&n, e->d_name, best);
    }
    if (dir)
        closedir(dir);
    if (n.best) {
        buf_adds(&folder, n.best);
        buf_clear(best);
        buf_addf(best, "; did you mean '%s'?", buf_str(&folder));
    }
    buf_release(&folder);
    cli_clean(best);
    return buf_str(best);
}
