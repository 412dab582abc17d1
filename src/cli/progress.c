/* progress.c -- a progress bar, and ^C while a file is being written; see cli.h. */
#include "cli/cli.h"

#include "base/environment.h"
#include "base/glyph.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SHOW_AFTER_NS 1000000000
#define REDRAW_NS 100000000
#define BAR_COLUMNS 24
#define CLEAR_LINE "\r\033[K"

static volatile sig_atomic_t caught; /* signal held back by cli_interrupt_begin() */

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void progress_start(struct progress *p, const struct cli *cli, const char *verb, const char *what)
{
    const char *term = environment_get("TERM");

    *p = (struct progress){ .verb = verb, .what = what, .start_ns = now_ns() };
    p->enabled = !cli->quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static void draw(const struct progress *p, uint64_t done, uint64_t total, int64_t elapsed_ns)
{
    double seconds = (double)elapsed_ns / 1e9, share = 0;
    char amount[HUMAN_ROOM], rate[HUMAN_ROOM], bar[BAR_COLUMNS + 1];
    struct winsize ws;
    struct glyph g;
    char line[512];
    size_t n;
    int len, filled, columns = 80;

    if (total) {
        share = MIN((double)done / (double)total, 1.0);
        filled = (int)(share * BAR_COLUMNS);
        memset(bar, ' ', BAR_COLUMNS);
        memset(bar, '=', (size_t)filled);
        if (filled < BAR_COLUMNS)
            bar[filled] = '>';
        bar[BAR_COLUMNS] = '\0';
        len = snprintf(line, sizeof(line), "[%s] %3.0f%%  ", bar, share * 100);
    } else {
        len = snprintf(line, sizeof(line), "%s  ",
                       p->bytes ? human_bytes(amount, done) : human_count(amount, (int64_t)done));
    }
    if (p->bytes)
        len += snprintf(line + len, sizeof(line) - (size_t)len, "%s/s  ",
                        human_bytes(rate, (uint64_t)((double)done / seconds)));
    if (share > 0)
        len += snprintf(line + len, sizeof(line) - (size_t)len, "%.0f s left  ",
                        seconds / share - seconds);
    snprintf(line + len, sizeof(line) - (size_t)len, "%s %s", p->verb, p->what);
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
        columns = ws.ws_col;
    fputs(CLEAR_LINE, stderr);
    for (size_t at = 0, left = strlen(line); left; at += n, left -= n) {
        n = glyph_next(line + at, left, &g); /* a name must not move the cursor */
        columns -= g.width;
        if (columns < 1)
            break;
        fwrite(g.s, 1, g.len, stderr);
    }
    fflush(stderr);
}

int progress_tick(void *progress, uint64_t done, uint64_t total)
{
    struct progress *p = progress;
    int64_t now;

    if (caught)
        return 1;
    if (!p->enabled)
        return 0;
    now = now_ns();
    if (now - p->start_ns < SHOW_AFTER_NS || now - p->last_ns < REDRAW_NS)
        return 0;
    p->last_ns = now;
    p->shown = true;
    draw(p, done, total, now - p->start_ns);
    return 0;
}

void progress_end(struct progress *p)
{
    if (p->shown)
        fputs(CLEAR_LINE, stderr);
    p->shown = false;
}

static void on_signal(int sig)
{
    caught = sig;
}

static const int held_signals[] = { SIGINT, SIGTERM, SIGHUP };

void cli_interrupt_begin(void)
{
    struct sigaction old, sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < ARRAY_SIZE(held_signals); i++) {
        /* nohup and background jobs of a shell start us with signals ignored; so they stay. */
        if (sigaction(held_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(held_signals[i], &sa, NULL);
    }
}

bool cli_interrupt_asked(void)
{
    return caught != 0;
}

int cli_interrupt_take(void)
{
    int sig = caught;

    caught = 0;
    return sig;
}

void cli_interrupt_end(void)
{
    struct sigaction old;

    for (size_t i = 0; i < ARRAY_SIZE(held_signals); i++)
        if (sigaction(held_signals[i], NULL, &old) == 0 && old.sa_handler == on_signal)
            signal(held_signals[i], SIG_DFL);
    if (caught)
        raise(caught);
}
