/* commit.c -- see commit.h. */
#include "cli/commit.h"

#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_MAX 200

extern char **environ;

/* What a program prints, and whether it ended well; git asks nobody for anything. */
static bool ask(char *const *argv, struct buf *out)
{
    posix_spawn_file_actions_t files;
    char room[SAID_MAX];
    int pipes[2], status = -1, rc;
    ssize_t n;
    pid_t pid;

    if (!system_pipe(pipes))
        return false;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    rc = posix_spawnp(&pid, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(pipes[1]);
    while (rc == 0) {
        n = read(pipes[0], room, sizeof(room));
        if (n > 0 && out->len < SAID_MAX)
            buf_add(out, room, (size_t)n);
        else if (n == 0 || (n < 0 && errno != EINTR))
            break;
    }
    close(pipes[0]);
    while (rc == 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return rc == 0 && status == 0 && !out->failed;
}

bool commit_here(struct buf *out, bool *dirty)
{
    char git[] = "git", describe[] = "describe", always[] = "--always", mark[] = "--dirty",
         whole[] = "--abbrev=40", no_tags[] = "--exclude=*";
    char *const argv[] = { git, describe, always, mark, whole, no_tags, NULL };
    struct buf said = { 0 };
    bool ok = ask(argv, &said);
    size_t digits = ok ? strspn(buf_str(&said), "0123456789abcdef") : 0;

    if (digits >= 40) {
        buf_add(out, said.data, digits);
        *dirty = strncmp(said.data + digits, "-dirty", 6) == 0;
    }
    buf_release(&said);
    return digits >= 40 && !out->failed;
}
