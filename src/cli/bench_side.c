/* bench_side.c -- one process of a side, and what it took; see bench.h. */
#include "cli/bench.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/folder.h"
#include "launch/program.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define SAID_MAX 400      /* of what a failed process said */
#define EXIT_SIGNALED 128 /* and the signal: how `record` ends when its program did so */

int64_t bench_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Find "--opmeter FILE" or "--opmeter=FILE", which is ours, among the words. */
static void find_tool(struct bench_side *s)
{
    static const char name[] = "--opmeter";

    for (size_t i = 0; i < s->words.we_wordc; i++) {
        const char *word = s->words.we_wordv[i];

        if (strcmp(word, name) == 0 && i + 1 < s->words.we_wordc) {
            s->tool = s->words.we_wordv[i + 1];
            s->tool_words = 2;
        } else if (strncmp(word, name, sizeof(name) - 1) == 0 && word[sizeof(name) - 1] == '=') {
            s->tool = word + sizeof(name);
            s->tool_words = 1;
        } else {
            continue;
        }
        s->tool_at = i;
        return;
    }
}

int bench_side_init(struct bench *b, size_t side, const char *text, const char *self)
{
    struct bench_side *s = &b->side[side];
    int rc;

    *s = (struct bench_side){ .letter = (char)('A' + side), .text = text, .tool = self };
    rc = wordexp(text, &s->words, WRDE_NOCMD);
    if (rc != 0) {
        s->words = (wordexp_t){ 0 };
        return rc == WRDE_NOSPACE
                   ? cli_out_of_memory()
                   : cli_usage(b->cli,
                               "'%s' is no command line: quote it as for a shell, without %s", text,
                               rc == WRDE_CMDSUB ? "$(...)" : "pipes and redirections");
    }
    if (!b->record)
        find_tool(s);
    if (s->words.we_wordc <= s->tool_words)
        return cli_usage(b->cli, "'%s' names no %s", text, b->record ? "program" : "model");
    return CLI_OK;
}

void bench_side_release(struct bench_side *side)
{
    if (side->words.we_wordv)
        wordfree(&side->words);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The last line that it wrote to standard error; of opmeter's own at the end the first, which is
 * the reason, without "opmeter: ". */
static void last_words(const char *path, char said[SAID_MAX])
{
    static const char own[] = "opmeter: ";
    FILE *f = fopen(path, "re");
    char line[SAID_MAX];
    bool reason = false;

    said[0] = '\0';
    while (f && fgets(line, sizeof(line), f)) { /* bounded: by its size */
        bool ours = strncmp(line, own, sizeof(own) - 1) == 0;

        line[strcspn(line, "\n")] = '\0';
        if (line[0] && !(ours && reason))
            snprintf(said, SAID_MAX, "%s", line + (ours ? sizeof(own) - 1 : 0));
        reason = line[0] ? ours : reason;
    }
    if (f)
        fclose(f);
}

/* Start it with standard files of its own, and wait. Negative errno, or its status. */
static int run_words(char *const *argv, const char *said, int *status)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid;
    int rc, missing = program_missing(argv[0]);

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, said, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    rc = posix_spawnp(&pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    if (rc != 0)
        return -rc;
    while (waitpid(pid, status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
        if (cli_interrupt_asked()) /* on a terminal it has heard of it, else it has not */
            kill(pid, SIGTERM);
    }
    return -program_not_started(missing, *status);
}

/* -- what it took -- */

static int read_trace(struct bench *b, char *path, enum recording_basis *basis, struct trial *trial)
{
    opm_trace *t = NULL;
    bool quiet = b->cli->quiet;
    int64_t instances = 0;
    opm_error err;
    int rc;

    b->cli->quiet = true; /* one of many: no progress bar of its own */
    rc = cli_open(b->cli, &t, &path, 1);
    b->cli->quiet = quiet;
    if (rc == CLI_OK && !b->record && recording_instances(t, &instances, &err) < 0)
        rc = cli_error("%s", err.msg);
    if (rc == CLI_OK && instances > 1)
        rc = cli_error("a side of bench is one process at a time: leave --instances out");
    if (rc == CLI_OK && recording_read(&b->trials, t, trial, basis, &err) < 0)
        rc = cli_error("%s", err.msg);
    opm_trace_close(t);
    return rc;
}

static int add_trial(struct bench *b, size_t side, enum recording_basis basis, struct trial *trial)
{
    const struct bench_side *s = &b->side[side];

    if (!trial->n)
        return cli_error("%c (%s): its trace says nothing of how long it took", s->letter, s->text);
    if (b->basis && b->basis != basis)
        return cli_error(
            "%c (%s): its processes are measured by %s, those before by %s; they do not "
            "compare",
            s->letter, s->text, recording_basis_names[basis], recording_basis_names[b->basis]);
    b->basis = basis;
    return trials_add(&b->trials, side, trial) < 0 ? cli_out_of_memory() : CLI_OK;
}

/* The words of a process, each allocated. */
struct words {
    char **item; /* ends with NULL */
    size_t n, cap;
    bool failed;
};

static void add_word(struct words *w, const char *text)
{
    char *own = GROW(w->item, w->cap, w->n + 2) ? mem_strdup(text) : NULL;

    if (!own) {
        w->failed = true;
        return;
    }
    w->item[w->n++] = own;
    w->item[w->n] = NULL;
}

static void words_release(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        mem_free(w->item[i]);
    mem_free(w->item);
}

/* Ours come first, so that those of the side take their place. */
static int make_words(const struct bench *b, const struct bench_side *s, const char *folder,
                      const char *trace, struct words *w)
{
    static const char *const run[] = { "run", "-q", "--warmup", "100ms", "--iterations" };
    static const char *const record[] = { "record", "-q", "--force", "-o" };
    char amount[32];

    snprintf(amount, sizeof(amount), "%lldms", (long long)MAX(b->process_ns / 1000000, 1));
    add_word(w, s->tool);
    for (size_t i = 0; i < ARRAY_SIZE(run) && !b->record; i++)
        add_word(w, run[i]);
    for (size_t i = 0; i < ARRAY_SIZE(record) && b->record; i++)
        add_word(w, record[i]);
    add_word(w, b->record ? trace : amount);
    if (b->record)
        add_word(w, "--");
    for (size_t i = 0; i < s->words.we_wordc; i++)
        if (i < s->tool_at || i >= s->tool_at + s->tool_words)
            add_word(w, s->words.we_wordv[i]);
    if (!b->record) {
        add_word(w, "-o");
        add_word(w, folder);
    }
    return w->failed ? cli_out_of_memory() : CLI_OK;
}

static int failed(const struct bench *b, const struct bench_side *s, int error, int status,
                  const char *said_path)
{
    char said[SAID_MAX];
    int signal = 0;

    if (error < 0)
        return cli_error("%c cannot be started: %s: %s", s->letter, s->tool, strerror(-error));
    last_words(said_path, said);
    if (WIFSIGNALED(status))
        signal = WTERMSIG(status);
    else if (b->record && WEXITSTATUS(status) > EXIT_SIGNALED)
        signal = WEXITSTATUS(status) - EXIT_SIGNALED;
    if (signal)
        return cli_error("%c (%s) was ended by signal %d, %s%s%s", s->letter, s->text, signal,
                         strsignal(signal), said[0] ? ": " : "", said);
    return cli_error("%c (%s) failed with exit code %d%s%s", s->letter, s->text,
                     WEXITSTATUS(status), said[0] ? ": " : "", said);
}

/* A folder of its own for the n-th process. */
static int make_folder(const struct bench *b, const struct bench_side *s, size_t n,
                       char folder[FOLDER_PATH_MAX])
{
    const char *tmp = environment_get("TMPDIR");
    opm_error err;

    if (b->keep) {
        snprintf(folder, FOLDER_PATH_MAX, "%s/%c-%03zu", b->keep, s->letter, n);
        return folder_make(folder, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;
    }
    snprintf(folder, FOLDER_PATH_MAX, "%s/opmeter-bench-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    return mkdtemp(folder) ? CLI_OK : cli_error("%s: %s", folder, strerror(errno));
}

int bench_process(struct bench *b, size_t side, size_t n)
{
    const struct bench_side *s = &b->side[side];
    char folder[FOLDER_PATH_MAX], trace[FOLDER_PATH_MAX + 16], said[FOLDER_PATH_MAX + 16];
    struct words words = { 0 };
    enum recording_basis basis = RECORDING_UNKNOWN;
    struct trial trial = { 0 };
    int status = 0, error, rc = make_folder(b, s, n, folder);

    if (rc != CLI_OK)
        return rc;
    snprintf(trace, sizeof(trace), "%s/trace.opm", folder);
    snprintf(said, sizeof(said), "%s/messages.txt", folder);
    rc = make_words(b, s, folder, trace, &words);
    error = rc == CLI_OK ? run_words(words.item, said, &status) : 0;
    if (rc == CLI_OK && cli_interrupt_asked())
        b->interrupted = true;
    else if (rc == CLI_OK && (error < 0 || status != 0))
        rc = failed(b, s, error, status, said);
    else if (rc == CLI_OK)
        rc = read_trace(b, trace, &basis, &trial);
    if (rc == CLI_OK && !b->interrupted)
        rc = add_trial(b, side, basis, &trial);
    if (!b->keep)
        remove_tree(folder);
    trial_release(&trial);
    words_release(&words);
    return rc;
}
