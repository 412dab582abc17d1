/* options.h -- command-line options as a local array bound to local variables.
 *
 *     const char *format = NULL;
 *     const struct option opts[] = {
 *         OPT_STR('f', "format", &format, "NAME", "write this format"),
 *         OPT_END,
 *     };
 *
 * Parsing, abbreviations, --no-x, suggestions and the help text all come from that array, so an
 * option cannot be parsed and undocumented. Understood: -x, -xVALUE, -x VALUE, -xyz, --name,
 * --name=VALUE,
 * --name VALUE, any unambiguous beginning of a name, '_' for '-' in it, --no-name for booleans, and
 * -- to end the options. Options and other arguments may be mixed; a lone "-" is an argument. -h
 * and --help need no entry. Nothing here prints or exits. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/buf.h"
#include "base/nearest.h"
#include <opmeter/opmeter_error.h>

enum option_kind {
    OPTION_END,
    OPTION_GROUP, /* a heading in the help, no option */
    OPTION_ALIAS, /* another word for one, which other tools use; the help is silent about it */
    OPTION_BOOL,
    OPTION_STR,
    OPTION_INT,
    OPTION_SIZE, /* bytes: 4096, 512M, 16G */
    OPTION_CHOICE,
    OPTION_LIST,
};

/* The values of an option that may be given several times, in order. `{0}` is empty. */
struct option_list {
    const char **item; /* the strings belong to argv */
    size_t n;
    size_t cap;
};
void option_list_release(struct option_list *l);

struct option {
    enum option_kind kind;
    char letter;      /* 0: none */
    const char *name; /* without the dashes; NULL: none */
    union {
        bool *b;
        const char **s;
        int64_t *i;
        uint64_t *size;
        struct option_list *list;
    } value;
    const char *arg; /* what stands for the value in the help */
    const char *help;
    int64_t min; /* OPTION_INT */
    int64_t max;
    const char *const *choices; /* OPTION_CHOICE: allowed values, NULL at the end */
};

/* clang-format off */
#define OPT_BOOL(l, n, v, h) { .kind = OPTION_BOOL, .letter = (l), .name = (n), .value.b = (v), .help = (h) }
#define OPT_STR(l, n, v, a, h) \
    { .kind = OPTION_STR, .letter = (l), .name = (n), .value.s = (v), .arg = (a), .help = (h) }
#define OPT_INT(l, n, v, a, lo, hi, h)                                                         \
    { .kind = OPTION_INT, .letter = (l), .name = (n), .value.i = (v), .arg = (a), .help = (h), \
      .min = (lo), .max = (hi) }
#define OPT_SIZE(l, n, v, a, h) \
    { .kind = OPTION_SIZE, .letter = (l), .name = (n), .value.size = (v), .arg = (a), .help = (h) }
#define OPT_CHOICE(l, n, v, a, c, h)                                                              \
    { .kind = OPTION_CHOICE, .letter = (l), .name = (n), .value.s = (v), .arg = (a), .help = (h), \
      .choices = (c) }
#define OPT_LIST(l, n, v, a, h) \
    { .kind = OPTION_LIST, .letter = (l), .name = (n), .value.list = (v), .arg = (a), .help = (h) }
#define OPT_ALIAS(n, other) { .kind = OPTION_ALIAS, .name = (n), .arg = (other) }
#define OPT_GROUP(h) { .kind = OPTION_GROUP, .help = (h) }
#define OPT_END { .kind = OPTION_END }
/* clang-format on */

enum options_parse_flags {
    OPTIONS_STOP_AT_ARGUMENT = 1, /* what follows the first argument belongs to someone else */
    OPTIONS_KEEP_DASHES = 2,      /* the first "--" is an argument, and options go on behind it */
};

/* Returned by options_parse() when -h or --help was given; nothing after it was looked at. */
#define OPTIONS_HELP 1

/* Read the argc strings of argv (no program name in front). The arguments that are no options come
 * first in argv afterwards, in order; *out_nargs counts them. 0, OPTIONS_HELP, or a negative code
 * with a message in err. Variables of options that were not given keep their value. */
int options_parse(const struct option *opts, unsigned flags, int argc, char **argv, int *out_nargs,
                  opm_error *err);

/* The help text: usage lines (`usage` has one per line), a paragraph, the options. Lines are broken
 * at width columns. about and opts may be NULL. */
void options_help(struct buf *b, const char *usage, const char *about, const struct option *opts,
                  int width);

/* Append text to b, broken at spaces into lines of at most width columns. Lines after the first
 * begin with indent spaces; the first is taken to start in column col. */
void text_wrap(struct buf *b, const char *text, int col, int indent, int width);

#endif
