/* ranks.c -- see ranks.h. */
#include "cli/ranks.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/environment.h"
#include "base/folder.h"
#include "base/scratch.h"
#include "base/u64map.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *ranks_job(const struct ranks_said *s)
{
    return s->job ? s->job : environment_job();
}

char *ranks_trace_of(char *path, char room[])
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        int n = snprintf(room, FOLDER_PATH_MAX, "%s/trace.opm", path);

        if (n > 0 && n < FOLDER_PATH_MAX && stat(room, &st) == 0)
            return room;
    }
    return path;
}

/* The rank that the name of a file says, as rank3.json, rank_00017.opm; RANK_OF_TRACE: none. */
static int64_t rank_in_name(const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    int64_t rank = RANK_OF_TRACE;

    for (const char *at = strstr(name, "rank"); at; at = strstr(at + 1, "rank")) {
        const char *digits = at + 4 + strspn(at + 4, "-_.=");
        size_t n = strspn(digits, "0123456789");

        if (n && n < 10)
            rank = strtol(digits, NULL, 10);
    }
    return rank;
}

/* Why one was not added. */
enum refused {
    REFUSED_ITSELF, /* others may do better */
    REFUSED_NOW,    /* it may work later */
    REFUSED_EVER,
};

static int add_within(struct cli *cli, struct fleetdb *db, struct rank_said *said, char *path,
                      bool here, const struct budget *budget, struct rank_added *done,
                      enum refused *why)
{
    char room[FOLDER_PATH_MAX], *trace = ranks_trace_of(path, room), *lies = realpath(trace, NULL);
    struct timespec now;
    opm_trace *t = NULL;
    opm_error err;
    int rc = cli_open(cli, &t, &trace, 1);

    clock_gettime(CLOCK_REALTIME, &now);
    said->now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    said->trace = lies ? lies : trace;
    said->otherwise = rank_in_name(path);
    if (said->otherwise == RANK_OF_TRACE && here)
        said->otherwise = environment_rank();
    *why = REFUSED_ITSELF;
    if (rc == CLI_OK && rank_reduce(db, t, said, done, &err) < 0) {
        bool spent = budget_fail(budget, path, 0, &err) < 0;

        if (!spent && err.code != OPM_EINVAL)
            *why = err.code == OPM_EIO || err.code == OPM_EBUSY ? REFUSED_NOW : REFUSED_EVER;
        if (spent)
            rc = cli_error("%s", err.msg);
        else
            rc = done->added + done->there
                     ? cli_error("%s: %s (%zu of job %s %s there; adding all again goes on)", path,
                                 err.msg, done->added + done->there, said->job,
                                 done->added + done->there == 1 ? "is" : "are")
                     : cli_error("%s: %s", path, err.msg);
    }
    opm_trace_close(t);
    free(lies); /* realpath() allocated it */
    return rc;
}

/* Of each recording its rank, one at a time: memory is that of the largest, and what is larger than
 * memory lies in a file meanwhile. `here`: if nothing else says which it is, it is the one of this
 * process. */
static int add_one(struct cli *cli, struct fleetdb *db, struct rank_said *said, char *path,
                   bool here, struct rank_added *done, enum refused *why)
{
    struct budget_limits limits = { cli->max_unpacked, cli->max_memory,
                                    (uint64_t)cli->max_seconds };
    struct budget budget, *before;
    opm_error err;
    int rc;

    *why = REFUSED_EVER;
    if (budget_init(&budget, &limits, &err) < 0)
        return cli_error("%s", err.msg);
    budget.scratch = scratch_folder();
    before = budget_enter(&budget);
    rc = add_within(cli, db, said, path, here, &budget, done, why);
    budget_enter(before);
    return rc;
}

/* `here`: one recording is added, that of this process: the launcher tells how many there are. Who
 * adds those of a machine is a process of another kind, and so may be as many as there are
 * machines. */
static struct rank_said said_of(const struct ranks_said *s, bool here)
{
    int64_t world = here ? environment_ranks() : 0;

    return (struct rank_said){ .job = ranks_job(s),
                               .rank = s->rank,
                               .world = world > 0 ? world : FLEETDB_NONE,
                               .spans = s->spans };
}

int ranks_add(struct cli *cli, const char *to, const struct ranks_said *s, char **paths, int n)
{
    struct rank_said said = said_of(s, n == 1);
    struct rank_added done = { 0 };
    struct fleetdb *db = NULL;
    enum refused why = REFUSED_ITSELF;
    opm_error err;
    int rc = CLI_OK, failed = 0;

    if (fleetdb_open(&db, to, FLEETDB_ADD, &err) < 0)
        return cli_error("%s", err.msg);
    /* One that cannot be read keeps none of the others away. */
    for (int i = 0; i < n && (rc == CLI_OK || why == REFUSED_ITSELF); i++) {
        int one = add_one(cli, db, &said, paths[i], n == 1, &done, &why);

        failed += one != CLI_OK;
        rc = one != CLI_OK ? one : rc;
    }
    if (failed && n > 1 && why == REFUSED_ITSELF)
        cli_error("%s: job %s: %d of %d recordings could not be read, the others are there",
                  fleetdb_name(db), said.job, failed, n);
    if (rc == CLI_OK && !cli->quiet) {
        cli_say(cli, "%s: job %s: %zu rank%s added", fleetdb_name(db), said.job, done.added,
                human_s((int64_t)done.added));
        if (done.there)
            cli_say(cli, ", %zu %s there already", done.there, done.there == 1 ? "is" : "are");
        cli_say(cli, "\n");
    }
    fleetdb_close(db);
    return rc;
}

/* -- a folder -- */

/* What a file was when it was seen last, by its inode. */
struct seen {
    uint64_t size, mtime_ns;
    bool added;   /* or given up */
    bool refused; /* may not be read, which was said */
};

struct watching {
    struct cli *cli;
    const char *to, *folder;
    struct rank_said said;
    struct seen *at;
    size_t n, cap;
    struct u64map of_inode;
    size_t news; /* at this look: added, or not at rest yet */
};

static volatile sig_atomic_t asked_to_end;

static void on_signal(int number)
{
    (void)number;
    asked_to_end = 1;
}

/* True: it is there, or never will be. */
static bool add_file(struct watching *w, char *path)
{
    struct rank_added done = { 0 };
    struct fleetdb *db = NULL;
    enum refused why;
    opm_error err;
    bool added;

    /* Opened for each: a server may have been away in between. */
    if (fleetdb_open(&db, w->to, FLEETDB_ADD, &err) < 0) {
        cli_error("%s", err.msg);
        return false;
    }
    added = add_one(w->cli, db, &w->said, path, false, &done, &why) == CLI_OK;
    if (done.added && !w->cli->quiet)
        cli_say(w->cli, "%s: added to job %s\n", path, w->said.job);
    fleetdb_close(db);
    return added || why != REFUSED_NOW;
}

static struct seen *seen_of(struct watching *w, uint64_t inode)
{
    const uint64_t *at = u64map_get(&w->of_inode, inode);

    if (at)
        return &w->at[*at];
    if (!GROW(w->at, w->cap, w->n + 1) || u64map_put(&w->of_inode, inode, w->n))
        return NULL;
    w->at[w->n] = (struct seen){ 0 };
    return &w->at[w->n++];
}

/* A file that is as it was at the last look is at rest. One that cannot be read is said once; one
 * that could not be added is tried again. */
static int look_at(struct watching *w, const char *name)
{
    char path[FOLDER_PATH_MAX];
    struct seen *seen;
    struct stat st;
    uint64_t mtime_ns;
    int n = snprintf(path, sizeof(path), "%s/%s", w->folder, name);

    if (name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || stat(path, &st) < 0 ||
        !S_ISREG(st.st_mode) || st.st_size == 0)
        return CLI_OK;
    seen = seen_of(w, (uint64_t)st.st_ino);
    if (!seen)
        return cli_out_of_memory();
    mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    if (seen->size != (uint64_t)st.st_size || seen->mtime_ns != mtime_ns) {
        *seen = (struct seen){ (uint64_t)st.st_size, mtime_ns, false, false };
        w->news++;
    } else if (!seen->added && access(path, R_OK) < 0) {
        if (errno != ENOENT && !seen->refused)
            cli_error("%s: %s", path, strerror(errno));
        seen->refused = true;
    } else if (!seen->added) {
        w->news++;
        seen->added = !opm_trace_detect(path) || add_file(w, path);
    }
    return CLI_OK;
}

static int look(struct watching *w)
{
    struct dirent **names = NULL;
    int n = scandir(w->folder, &names, NULL, alphasort), rc = CLI_OK;

    if (n < 0)
        return cli_error("%s: %s", w->folder, strerror(errno));
    w->news = 0;
    for (int i = 0; i < n; i++) {
        if (rc == CLI_OK && !asked_to_end)
            rc = look_at(w, names[i]->d_name);
        io_out_flush(&w->cli->out); /* who waits for it sees it */
        free(names[i]);             /* scandir() allocated them */
    }
    free(names);
    return rc;
}

int ranks_watch(struct cli *cli, const char *to, const struct ranks_said *s, const char *folder,
                int64_t seconds, int64_t idle)
{
    struct watching w = { .cli = cli, .to = to, .folder = folder, .said = said_of(s, false) };
    struct sigaction act = { .sa_handler = on_signal };
    int64_t quiet = 0;
    int rc = CLI_OK;

    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    while (rc == CLI_OK && !asked_to_end) {
        struct timespec wait = { seconds, 0 };

        rc = look(&w);
        quiet = w.news ? 0 : quiet + 1;
        if (idle && quiet >= idle)
            break;
        if (rc == CLI_OK && !asked_to_end)
            nanosleep(&wait, NULL);
    }
    mem_free(w.at);
    u64map_release(&w.of_inode);
    return rc;
}
