/* out.c -- messages, formats, colours and widths; see cli.h. */
#include "cli/cli.h"

#include "base/environment.h"
#include "base/glyph.h"
#include "base/redact.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_DEFAULT 80
#define TEXT_WIDTH_MAX 100 /* longer lines are hard to read */
#define TEXT_WIDTH_MIN 24
#define LABEL_COLUMNS 10

const char *const cli_color_choices[] = { "auto", "always", "never", NULL };

static void clean(struct buf *b, bool lines)
{
    size_t from = 0, to = 0;

    while (from < b->len) {
        uint32_t cp;
        size_t n = utf8_next(b->data + from, b->len - from, &cp);

        if (!utf8_is_control(cp) || (lines && cp == '\n')) {
            memmove(b->data + to, b->data + from, n);
            to += n;
        } else {
            b->data[to++] = '?';
        }
        from += n;
    }
    if (b->data)
        b->data[to] = '\0';
    b->len = to;
}

void cli_clean(struct buf *b)
{
    clean(b, false);
}

void cli_clean_lines(struct buf *b)
{
    clean(b, true);
}

/* One line on standard error, in one write: other processes may be writing there too. */
static void say(const char *msg, const char *tail)
{
    struct buf b = { 0 };

    buf_addf(&b, "opmeter: %s%s", msg, tail);
    cli_clean(&b); /* names and paths in it are not ours */
    if (!b.failed)
        redact_passwords(b.data);
    b.len = b.failed ? 0 : strlen(b.data);
    buf_addc(&b, '\n');
    fputs(b.failed ? "opmeter: out of memory\n" : buf_str(&b), stderr);
    buf_release(&b);
}

int cli_error(const char *fmt, ...)
{
    char *msg;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&msg, fmt, ap) < 0)
        msg = NULL;
    va_end(ap);
    say(msg ? msg : "out of memory", "");
    free(msg);
    return CLI_FAILURE;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    bool question;
    char *msg, tail[64];
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&msg, fmt, ap) < 0)
        msg = NULL;
    va_end(ap);
    question = msg && *msg && msg[strlen(msg) - 1] == '?';
    snprintf(tail, sizeof(tail), "%s 'opmeter help%s%s'%s", question ? " See" : "; see",
             cli->command ? " " : "", cli->command ? cli->command->name : "", question ? "." : "");
    say(msg ? msg : "out of memory", tail);
    free(msg);
    return CLI_USAGE;
}

/* Append what the format gives; what a terminal could act on becomes '?', but ends of lines stay if
 * `lines`. */
static void add_clean(struct buf *b, bool lines, const char *fmt, va_list ap)
{
    char *msg;

    if (vasprintf(&msg, fmt, ap) < 0)
        msg = NULL;
    buf_adds(b, msg ? msg : "");
    clean(b, lines);
    free(msg);
}

/* A line of standard output. */
static void put_styled(struct cli *cli, enum cli_style style, const struct buf *b)
{
    io_out_addf(&cli->out, "%s%s%s\n", cli_style(cli, style), buf_str(b),
                cli_style(cli, STYLE_PLAIN));
}

void cli_remark(struct cli *cli, const char *fmt, ...)
{
    struct buf b = { 0 }, lines = { 0 };
    va_list ap;

    if (cli->quiet)
        return;
    va_start(ap, fmt);
    add_clean(&b, false, fmt, ap);
    va_end(ap);
    if (isatty(STDOUT_FILENO)) {
        text_wrap(&lines, buf_str(&b), 0, 2, cli_text_width());
        put_styled(cli, STYLE_DIM, &lines);
    } else {
        say(buf_str(&b), "");
    }
    buf_release(&b);
    buf_release(&lines);
}

void cli_heading(struct cli *cli, const char *fmt, ...)
{
    struct buf b = { 0 }, lines = { 0 };
    va_list ap;

    va_start(ap, fmt);
    add_clean(&b, false, fmt, ap);
    va_end(ap);
    if (cli_width())
        text_wrap(&lines, buf_str(&b), 0, 2, MAX(cli_width(), TEXT_WIDTH_MIN));
    put_styled(cli, STYLE_BOLD, cli_width() ? &lines : &b);
    buf_release(&b);
    buf_release(&lines);
}

bool cli_fact(struct cli *cli, const char *label, struct buf *text)
{
    struct buf line = { 0 };
    bool ok;

    if (text->len) {
        cli_clean(text);
        buf_addf(&line, "  %-*s ", LABEL_COLUMNS, label);
        text_wrap(&line, buf_str(text), LABEL_COLUMNS + 3, LABEL_COLUMNS + 3, cli_text_width());
        io_out_addf(&cli->out, "%s\n", buf_str(&line));
    }
    ok = !text->failed && !line.failed;
    buf_release(&line);
    buf_clear(text);
    return ok;
}

void cli_tell(struct cli *cli, const char *fmt, ...)
{
    struct buf b = { 0 }, lines = { 0 };
    va_list ap;

    va_start(ap, fmt);
    add_clean(&b, false, fmt, ap);
    va_end(ap);
    text_wrap(&lines, buf_str(&b), 0, 0, cli_text_width());
    io_out_addf(&cli->out, "%s\n", buf_str(&lines));
    buf_release(&b);
    buf_release(&lines);
}

void cli_say(struct cli *cli, const char *fmt, ...)
{
    struct buf b = { 0 };
    va_list ap;

    va_start(ap, fmt);
    add_clean(&b, true, fmt, ap);
    va_end(ap);
    io_out_adds(&cli->out, buf_str(&b));
    buf_release(&b);
}

int cli_out_of_memory(void)
{
    return cli_error("out of memory");
}

static int parse(struct cli *cli, const struct option *opts, const char *about, unsigned flags,
                 int argc, char **argv)
{
    struct buf b = { 0 };
    opm_error err;
    int n, rc = options_parse(opts, flags, argc, argv, &n, &err);

    if (rc < 0) {
        cli->status = cli_usage(cli, "%s", err.msg);
        return -1;
    }
    if (rc == OPTIONS_HELP && cli->on_options) {
        cli->on_options(cli->on_options_user, opts);
        cli->status = CLI_OK;
        return -1;
    }
    if (rc == OPTIONS_HELP) {
        options_help(&b, cli->command->usage, about, opts, cli_text_width());
        io_out_adds(&cli->out, buf_str(&b));
        cli->status = b.failed ? cli_out_of_memory() : CLI_OK;
        buf_release(&b);
        return -1;
    }
    if (cli->json && cli->csv) {
        cli->status = cli_usage(cli, "--json and --csv exclude each other");
        return -1;
    }
    return n;
}

int cli_parse(struct cli *cli, const struct option *opts, const char *about, int argc, char **argv)
{
    return parse(cli, opts, about, 0, argc, argv);
}

int cli_parse_program(struct cli *cli, const struct option *opts, const char *about, int argc,
                      char **argv)
{
    return parse(cli, opts, about, OPTIONS_STOP_AT_ARGUMENT, argc, argv);
}

int cli_parse_sides(struct cli *cli, const struct option *opts, const char *about, int argc,
                    char **argv)
{
    return parse(cli, opts, about, OPTIONS_KEEP_DASHES, argc, argv);
}

enum textable_format cli_format(const struct cli *cli)
{
    return cli->json   ? TEXTABLE_JSON
           : !cli->csv ? TEXTABLE_ALIGNED
           : cli->raw  ? TEXTABLE_CSV
                       : TEXTABLE_CSV_SAFE;
}

static void say_no_room(struct cli *cli, const struct textable *t)
{
    struct buf names = { 0 };
    const char *name = textable_no_room(t, 0);

    for (size_t i = 0; name; name = textable_no_room(t, ++i))
        buf_addf(&names, "%s%s", i ? ", " : "", name);
    if (names.len)
        cli_remark(cli, "no room for: %s", buf_str(&names));
    buf_release(&names);
}

int cli_print_table(struct cli *cli, struct textable *t)
{
    opm_error err;
    int rc;

    if (!t)
        return cli_out_of_memory();
    rc = textable_print(t, &cli->out, cli_format(cli), cli_width(), cli_has_color(cli), &err);
    if (rc == 0)
        say_no_room(cli, t);
    textable_free(t);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

int cli_width(void)
{
    const char *columns = environment_get("COLUMNS");
    struct winsize ws;
    long n;

    if (!isatty(STDOUT_FILENO))
        return 0;
    n = columns ? strtol(columns, NULL, 10) : 0;
    if (n > 0 && n < 10000)
        return (int)n;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
        return ws.ws_col;
    return WIDTH_DEFAULT;
}

int cli_bytes(const char *text, int columns)
{
    size_t len = strlen(text);

    return columns + (int)(len - glyph_width(text, len));
}

int cli_text_width(void)
{
    int width = cli_width();

    return width ? MIN(MAX(width, TEXT_WIDTH_MIN), TEXT_WIDTH_MAX) : WIDTH_DEFAULT;
}

bool cli_has_color(const struct cli *cli)
{
    const char *no_color = environment_get("NO_COLOR"), *term = environment_get("TERM");

    if (strcmp(cli->color, "always") == 0)
        return true;
    if (strcmp(cli->color, "never") == 0 || no_color)
        return false;
    return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

const char *cli_style(const struct cli *cli, enum cli_style style)
{
    static const char *const sequence[] = {
        [STYLE_PLAIN] = "\033[0m",  [STYLE_BOLD] = "\033[1m",    [STYLE_DIM] = "\033[2m",
        [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m", [STYLE_RED] = "\033[31m",
    };

    return cli_has_color(cli) ? sequence[style] : "";
}
