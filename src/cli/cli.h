/* cli.h -- what the commands share: the command table, standard output, messages, opening traces.
 *
 * Commands are the only code of the project that prints. They write to cli->out, which the driver
 * (main.c) opens, flushes and checks once; messages go to standard error through cli_error() and
 * cli_usage(), one line each, whose result is the exit code to return. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/human.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/textable.h"
#include "cli/options.h"
#include <opmeter/opmeter_trace.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILURE = 1,
    CLI_USAGE = 2,
    CLI_CHECK = 3, /* a check that the user asked for did not hold */
};

struct cli {
    const struct command *command; /* the one that runs; NULL before it is known */
    struct io_out out;             /* standard output */
    const char *color;             /* auto, always or never */
    bool quiet;
    bool json;
    bool csv;
    bool raw; /* CSV with texts as they are, not as a spreadsheet should see them */
    const char *const *trace_meta; /* facts to add to a TRACE when it is opened, or NULL */
    const char *trace_format;      /* how to read a TRACE; NULL: found out from its content */
    const char *redact;            /* facts to hide of a TRACE, or NULL; see base/redact.h */
    uint64_t max_unpacked;         /* limits of reading, as in opm_open_options; 0: the defaults */
    uint64_t max_memory;
    int64_t max_seconds;
    struct option_list captures; /* of graphs, for every TRACE */
    bool stdin_taken;            /* by a '-' that something was read from */
    bool sigpipe_ignored;        /* when we were started; programs that we start inherit it */
    /* Instead of helping, say which options a command has; NULL: no. */
    void (*on_options)(void *user, const struct option *opts);
    void *on_options_user;
    int status; /* exit code when cli_parse() says that the command is over */
};

struct command {
    const char *name;
    int (*run)(struct cli *cli, int argc, char **argv); /* argv without the command; an exit code */
    const char *help;                                   /* a few words, for the list of commands */
    const char *usage; /* one form per line; the SYNOPSIS of the man page */
};

extern const struct command commands[]; /* ends with a NULL name */
/* The options in front of a command, as long as see() runs. */
void cli_global_options(struct cli *cli, void (*see)(void *user, const struct option *opts),
                        void *user);
/* NULL, after a message and with cli->status set, if there is none. */
const struct command *command_find(struct cli *cli, const char *name);

int cmd_add(struct cli *cli, int argc, char **argv);
int cmd_advise(struct cli *cli, int argc, char **argv);
int cmd_bench(struct cli *cli, int argc, char **argv);
int cmd_completion(struct cli *cli, int argc, char **argv);
int cmd_diff(struct cli *cli, int argc, char **argv);
int cmd_doctor(struct cli *cli, int argc, char **argv);
int cmd_export(struct cli *cli, int argc, char **argv);
int cmd_help(struct cli *cli, int argc, char **argv);
int cmd_history(struct cli *cli, int argc, char **argv);
int cmd_import(struct cli *cli, int argc, char **argv);
int cmd_job(struct cli *cli, int argc, char **argv);
int cmd_llm(struct cli *cli, int argc, char **argv);
int cmd_info(struct cli *cli, int argc, char **argv);
int cmd_pipeline(struct cli *cli, int argc, char **argv);
int cmd_query(struct cli *cli, int argc, char **argv);
int cmd_record(struct cli *cli, int argc, char **argv);
int cmd_report(struct cli *cli, int argc, char **argv);
int cmd_run(struct cli *cli, int argc, char **argv);
int cmd_schema(struct cli *cli, int argc, char **argv);
int cmd_serve(struct cli *cli, int argc, char **argv);
int cmd_steps(struct cli *cli, int argc, char **argv);
int cmd_summary(struct cli *cli, int argc, char **argv);
int cmd_top(struct cli *cli, int argc, char **argv);
int cmd_version(struct cli *cli, int argc, char **argv);
int cmd_whatif(struct cli *cli, int argc, char **argv);
int cmd_zoo(struct cli *cli, int argc, char **argv);

extern const char *const cli_color_choices[];

/* clang-format off */
/* The options of every command, and those of commands that print tables. */
#define CLI_COMMON_OPTIONS(cli)                                                        \
    OPT_CHOICE(0, "color", &(cli)->color, "WHEN", cli_color_choices,                   \
               "use colour: auto (on a terminal), always or never"),                   \
    OPT_BOOL('q', "quiet", &(cli)->quiet, "no progress bar and no closing remarks")
#define CLI_TABLE_OPTIONS(cli)                                                         \
    OPT_BOOL(0, "json", &(cli)->json, "print JSON"),                                   \
    OPT_BOOL(0, "csv", &(cli)->csv, "print CSV"),                                      \
    OPT_BOOL(0, "raw", &(cli)->raw,                                                    \
             "CSV: texts as they are, also those that look like formulas")
/* Of commands that take a TRACE. */
#define CLI_TRACE_OPTIONS(cli)                                                         \
    OPT_STR(0, "format", &(cli)->trace_format, "NAME",                                 \
            "read every TRACE as this format instead of finding out"),                 \
    CLI_LIMIT_OPTIONS(cli)
/* What reading needs and may cost; for every command that reads a TRACE. */
#define CLI_LIMIT_OPTIONS(cli)                                                         \
    OPT_LIST(0, "capture", &(cli)->captures, "PATH",                                   \
             "take operators of replayed graphs from the trace of their capture, a file or folder"), \
    OPT_SIZE(0, "max-unpacked", &(cli)->max_unpacked, "SIZE",                          \
             "refuse packed files that unpack to more, such as 100G (64G, and 200 times their size)"), \
    OPT_SIZE(0, "max-memory", &(cli)->max_memory, "SIZE",                              \
             "refuse what takes more memory to read (three quarters of the machine's)"), \
    OPT_INT(0, "max-time", &(cli)->max_seconds, "SECONDS", 0, INT32_MAX,               \
            "give up reading after so many seconds (0: never)")
/* Of commands that write files to hand on. */
#define CLI_REDACT_OPTION(cli)                                                         \
    OPT_STR(0, "redact", &(cli)->redact, "LIST",                                       \
            "leave out facts: all, or some of command,host,paths and patterns of keys of meta")
/* clang-format on */

/* After an empty line, one per device (or rank without one): its wall time and what it consists of,
 * as the view reconciliation has it; where: SQL that chooses rows of it. CLI_OK, or an error that
 * was said. */
int cli_print_reconciliation(struct cli *cli, opm_trace *t, const char *where);
/* Append a name for a sentence: an ellipsis in place of its middle, if it is long. */
void cli_add_name(struct buf *b, const char *name);
/* How much of the devices' time is no operator's, and whose it is; nothing if there is none. */
void cli_remark_attribution(struct cli *cli, opm_trace *t);
/* Operators of which much time is left out because executions were interrupted. */
void cli_remark_interruptions(struct cli *cli, opm_trace *t);

/* May the command write to path ('-': standard output)? Not if something is there that is not a
 * trace or report of ours, or a folder with other things in it, unless --force was given. Ask
 * before any work is done. CLI_OK, or an error that has been said. */
int cli_may_write(const char *path, bool force);
/* The same of files that it will write into a folder, where there may be others. */
int cli_may_write_names(const char *folder, const char *const *names, size_t n, bool force);
/* Just before it does: a trace that is there is kept as PATH.old, unless --force was given. */
int cli_make_way(const char *path, bool force);

/* Parse the options of the running command. Returns the number of arguments, which are now at the
 * front of argv; or -1 after a mistake or --help, both dealt with: return cli->status. */
int cli_parse(struct cli *cli, const struct option *opts, const char *about, int argc, char **argv);
/* The same where the first argument is a program: what follows it are the program's own options. */
int cli_parse_program(struct cli *cli, const struct option *opts, const char *about, int argc,
                      char **argv);

/* The same where a "--" stands between arguments: it is one of them. */
int cli_parse_sides(struct cli *cli, const struct option *opts, const char *about, int argc,
                    char **argv);

/* Print "opmeter: ..." and return CLI_FAILURE. */
__attribute__((format(printf, 1, 2))) int cli_error(const char *fmt, ...);
/* Print "opmeter: ... See 'opmeter help COMMAND'." and return CLI_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_usage(const struct cli *cli, const char *fmt, ...);

/* A closing remark, unless they are not wanted: below the table on a terminal, on standard error
 * where something else reads standard output. */
__attribute__((format(printf, 2, 3))) void cli_remark(struct cli *cli, const char *fmt, ...);

/* A line in bold above a table; names in it are made harmless. */
__attribute__((format(printf, 2, 3))) void cli_heading(struct cli *cli, const char *fmt, ...);

/* "  label     text", broken into lines, and text emptied; nothing if it is empty. False: out of
 * memory. */
bool cli_fact(struct cli *cli, const char *label, struct buf *text);

/* Sentences on standard output, broken where the terminal ends. */
__attribute__((format(printf, 2, 3))) void cli_tell(struct cli *cli, const char *fmt, ...);

/* Print text that names files, on standard output; whatever they are called. */
__attribute__((format(printf, 2, 3))) void cli_say(struct cli *cli, const char *fmt, ...);

/* Format of a table, from --json and --csv. */
enum textable_format cli_format(const struct cli *cli);
/* Print t in that format, fitted to the terminal, say which columns had no room, and free it; NULL
 * (no memory) is fine. */
int cli_print_table(struct cli *cli, struct textable *t);
int cli_out_of_memory(void); /* says so; CLI_FAILURE */

/* What a terminal could act on becomes '?' (base/utf8.h), in place. */
void cli_clean(struct buf *b);
void cli_clean_lines(struct buf *b);       /* but ends of lines stay */
bool cli_has_color(const struct cli *cli); /* on standard output */
int cli_width(void); /* columns of the terminal that standard output is; 0: not a terminal */
/* What to give %*s, which counts bytes, for text to be so many columns wide. */
int cli_bytes(const char *text, int columns);
int cli_text_width(void); /* where to break sentences: the terminal's width, at most 100 */

/* Escape sequences, or "" where colour is not wanted. */
enum cli_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GREEN, STYLE_YELLOW, STYLE_RED };
const char *cli_style(const struct cli *cli, enum cli_style style);

/* A bar on standard error for what takes over a second, if that is a terminal; tick it with
 * progress_tick() (an opm_open_options.progress) and always end it, which clears the line. */
struct progress {
    const char *verb; /* "reading" */
    const char *what; /* "trace.json" */
    bool bytes;       /* done and total count bytes */
    bool enabled;
    bool shown;
    int64_t start_ns;
    int64_t last_ns;
};
void progress_start(struct progress *p, const struct cli *cli, const char *verb, const char *what);
int progress_tick(void *progress, uint64_t done, uint64_t total);
void progress_end(struct progress *p);

/* From now until cli_interrupt_end(), the first ^C (or SIGTERM, SIGHUP) makes progress_tick() give
 * up, so that a half-written file is removed; the second ends the process. cli_interrupt_end()
 * delivers what was held back. */
void cli_interrupt_begin(void);
void cli_interrupt_end(void);
/* The signal that was held back, for who has more to do before it takes effect; 0: none. */
bool cli_interrupt_asked(void); /* from any thread: has one come? */
int cli_interrupt_take(void);

/* The format to write by the extension of path; NULL: none has it. */
const char *cli_export_format(const char *path);

/* Open the traces named by n paths, '-' being standard input, which then is CLI_STDIN in paths;
 * close with opm_trace_close(). CLI_OK, or the exit code after a message. */
#define CLI_STDIN "/dev/stdin"
int cli_open(struct cli *cli, opm_trace **out, char **paths, int n);

/* A sentence on what --counters counted in t, which was written to path, and why not more; nothing
 * if it was not asked for. */
void cli_counters(opm_trace *t, const char *path, struct buf *b);

/* What recording t cost the program that was recorded, as far as that was measured; nothing if it
 * was not. */
void cli_measuring(opm_trace *t, struct buf *b);

/* Run sql and print what it gives in the format of cli_format(). Rows are not held in memory, but
 * for the first few thousand of the aligned form, which decide its widths. CLI_OK or the exit code.
 */
int cli_print_query(struct cli *cli, opm_trace *t, const char *sql);
/* The first cell of what sql gives, as an integer; -1 if there is none. */
int64_t cli_query_int(opm_trace *t, const char *sql);
/* Of the texts that sql gives, the one most like word is put into *best, nothing if none is. Is
 * word itself among them? */
bool cli_near_text(opm_trace *t, const char *sql, const char *word, struct buf *best);
/* "; did you mean 'a/b.json'?" for a file that is not there, if one beside it is called nearly so;
 * else "". Lives in *best. */
const char *cli_near_file(const char *path, struct buf *best);
/* Append a text as SQL writes it, in quotes. */
void cli_sql_text(struct buf *b, const char *text);
/* A cell of the current row as a cell of a table for people. */
void cli_add_value(struct textable *t, const opm_rows *r, int c);
/* The current row as a JSON object. */
void cli_json_row(struct json_writer *w, const opm_rows *r);

#endif
