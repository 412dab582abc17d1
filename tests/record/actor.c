/* actor.c -- an instrumented program that does what a test of `opmeter record` needs: its arguments
 * are what to do, one after the other.
 *
 *   span NAME     record a span
 *   spans N NAME  record N spans
 *   daemon        go on as a daemon: in a process of its own, with all descriptors closed
 *   setuid        go on as nobody
 *   chroot DIR    go on in DIR
 *   own FILE      open a file, write 100000 bytes to it, and keep it open
 *   fork          go on in two processes; the first waits for the second at its end
 *   leave         go on in another process, and end this one
 *   open NAME     begin a span that is never ended
 *   kill          kill -9 this process
 *   exec WORD...  become another program
 *   wait FILE     until the file exists
 *   signals       print "ready", then the name of the first signal that comes */
#include <fcntl.h>
#include <opmeter/opmeter.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void wait_for_file(const char *path)
{
    struct timespec pause = { 0, 5000000 };

    while (access(path, F_OK) < 0)
        nanosleep(&pause, NULL);
}

static void wait_for_signal(void)
{
    sigset_t set;
    int sig;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("ready\n");
    fflush(stdout);
    if (sigwait(&set, &sig) == 0)
        printf("%s\n", sig == SIGTERM ? "SIGTERM" : sig == SIGINT ? "SIGINT" : "SIGUSR1");
    fflush(stdout);
}

static void check(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        _exit(3);
    }
}

/* As the books have it. The parent does not wait. */
static void become_daemon(void)
{
    pid_t pid = fork();

    check(pid >= 0, "fork");
    if (pid > 0)
        exit(0);
    check(setsid() >= 0, "setsid");
    pid = fork();
    check(pid >= 0, "fork");
    if (pid > 0)
        _exit(0);
    for (int fd = 0; fd < 1100; fd++)
        close(fd);
}

static void own_file(const char *path)
{
    static char page[100000];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);

    memset(page, 'x', sizeof(page));
    check(fd >= 0 && write(fd, page, sizeof(page)) == (ssize_t)sizeof(page), path);
}

int main(int argc, char **argv)
{
    pid_t child = -1;

    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "span") == 0) {
            opm_end(opm_begin_named(OPM_APP, NULL, next, strlen(next)));
            i++;
        } else if (strcmp(argv[i], "spans") == 0) {
            for (int n = atoi(next); n > 0; n--)
                opm_end(opm_begin_named(OPM_APP, NULL, argv[i + 2], strlen(argv[i + 2])));
            i += 2;
        } else if (strcmp(argv[i], "daemon") == 0) {
            become_daemon();
        } else if (strcmp(argv[i], "setuid") == 0) {
            check(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
        } else if (strcmp(argv[i], "chroot") == 0) {
            check(chroot(next) == 0 && chdir("/") == 0, "chroot");
            i++;
        } else if (strcmp(argv[i], "own") == 0) {
            own_file(next);
            i++;
        } else if (strcmp(argv[i], "open") == 0) {
            opm_begin_named(OPM_APP, NULL, next, strlen(next));
            i++;
        } else if (strcmp(argv[i], "fork") == 0) {
            child = fork();
        } else if (strcmp(argv[i], "leave") == 0) {
            if (fork() > 0)
                return 0;
        } else if (strcmp(argv[i], "kill") == 0) {
            raise(SIGKILL);
        } else if (strcmp(argv[i], "exec") == 0) {
            execvp(next, argv + i + 1);
            return 127;
        } else if (strcmp(argv[i], "wait") == 0) {
            wait_for_file(next);
            i++;
        } else if (strcmp(argv[i], "signals") == 0) {
            wait_for_signal();
        } else {
            fprintf(stderr, "actor: what is '%s'?\n", argv[i]);
            return 2;
        }
    }
    if (child > 0)
        waitpid(child, NULL, 0);
    return 0;
}
