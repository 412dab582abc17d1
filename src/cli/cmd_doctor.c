/* cmd_doctor.c -- say what this machine can measure, and the exact reason where it can't. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_COLUMNS 7

static const char about[] =
    "Look at the clock, the processor, memory, hardware counters, GPUs, engines, files and "
    "settings "
    "of this machine, and say what opmeter can measure with them, why not more, and what to do "
    "about "
    "it. Nothing is changed. A missing part is no failure: the exit code is 0.";

static const char *const status_names[] = {
    [DOCTOR_OK] = "ok",
    [DOCTOR_LIMITED] = "limited",
    [DOCTOR_MISSING] = "missing",
};
static const enum cli_style status_styles[] = {
    [DOCTOR_OK] = STYLE_GREEN,
    [DOCTOR_LIMITED] = STYLE_YELLOW,
    [DOCTOR_MISSING] = STYLE_DIM, /* mostly nothing to worry about */
};

void doctor_say(struct doctor *d, enum doctor_status status, const char *what, const char *advice,
                const char *fmt, ...)
{
    struct finding f = { status, d->area, what, advice, NULL };
    va_list ap;
    char *detail;

    va_start(ap, fmt);
    if (vasprintf(&detail, fmt, ap) < 0)
        detail = NULL;
    va_end(ap);
    f.detail = detail;
    if (!detail || !GROW(d->finding, d->cap, d->n + 1)) {
        free(detail);
        d->failed = true;
        return;
    }
    d->finding[d->n++] = f;
}

void doctor_release(struct doctor *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->finding[i].detail);
    mem_free(d->finding);
    *d = (struct doctor){ 0 };
}

bool doctor_read_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(out, (int)size, f);

    if (f)
        fclose(f);
    if (ok)
        out[strcspn(out, "\n")] = '\0';
    return ok;
}

bool doctor_read_key(const char *path, const char *key, char *out, size_t size)
{
    size_t key_len = strlen(key);
    FILE *f = fopen(path, "re");
    size_t cap = 0;
    char *line = NULL;
    bool found = false;

    while (f && !found && getline(&line, &cap, f) > 0) {
        char *value = line + key_len;

        if (strncmp(line, key, key_len) != 0 || value[strspn(value, " \t")] != ':')
            continue;
        value += strspn(value, " \t:");
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, size, "%s", value);
        found = true;
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

bool doctor_has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list;; p += len) {
        p = strstr(p, word);
        if (!p)
            break;
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    }
    return false;
}

static int print_table(struct cli *cli, const struct doctor *d)
{
    static const char *const names[] = { "area", "status", "what", "detail", "advice" };
    struct textable *t = textable_new();

    for (size_t i = 0; t && i < ARRAY_SIZE(names); i++)
        textable_column(t, names[i], TEXTABLE_TEXT);
    for (size_t i = 0; t && i < d->n; i++) {
        const struct finding *f = &d->finding[i];

        textable_text(t, f->area, strlen(f->area));
        textable_text(t, status_names[f->status], strlen(status_names[f->status]));
        textable_text(t, f->what, strlen(f->what));
        textable_text(t, f->detail, strlen(f->detail));
        if (f->advice)
            textable_text(t, f->advice, strlen(f->advice));
        else
            textable_null(t);
    }
    return cli_print_table(cli, t);
}

static int print_text(struct cli *cli, const struct doctor *d)
{
    const char *bold = cli_style(cli, STYLE_BOLD), *plain = cli_style(cli, STYLE_PLAIN);
    size_t count[ARRAY_SIZE(status_names)] = { 0 };
    int what_columns = 0, indent, width = cli_text_width(), rc;
    struct buf b = { 0 };

    for (size_t i = 0; i < d->n; i++)
        what_columns = MAX(what_columns, (int)strlen(d->finding[i].what));
    indent = 2 + STATUS_COLUMNS + 2 + what_columns + 2;
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->finding[i];

        if (i == 0 || f->area != f[-1].area)
            buf_addf(&b, "%s%s%s%s\n", i ? "\n" : "", bold, f->area, plain);
        count[f->status]++;
        buf_addf(&b, "  %s%-*s%s  %-*s  ", cli_style(cli, status_styles[f->status]), STATUS_COLUMNS,
                 status_names[f->status], plain, what_columns, f->what);
        text_wrap(&b, f->detail, indent, indent, width);
        buf_addc(&b, '\n');
        if (f->advice) {
            buf_addf(&b, "%*s\xe2\x86\x92 ", indent, ""); /* an arrow */
            text_wrap(&b, f->advice, indent + 2, indent + 2, width);
            buf_addc(&b, '\n');
        }
    }
    buf_addf(&b, "\n%zu ok, %zu limited, %zu missing\n", count[DOCTOR_OK], count[DOCTOR_LIMITED],
             count[DOCTOR_MISSING]);
    rc = b.failed ? cli_out_of_memory() : CLI_OK;
    io_out_adds(&cli->out, buf_str(&b));
    buf_release(&b);
    return rc;
}

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
    static const struct {
        const char *area;
        void (*look)(struct doctor *d);
    } areas[] = {
        { "Clock", doctor_clock },
        { "Processor", doctor_cpu },
        { "Memory", doctor_memory },
        { "Hardware counters", doctor_counters },
        { "Recording", doctor_recording },
        { "GPU", doctor_gpu },
        { "Engines", doctor_engines },
        { "Files and limits", doctor_files },
        { "Environment", doctor_environment },
        { "Versions", doctor_versions },
    };
    const struct option opts[] = {
        CLI_TABLE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    struct doctor d = { 0 };

    if (n < 0)
        return cli->status;
    if (n > 0)
        return cli_usage(cli, "doctor takes no argument, but there is '%s'", argv[0]);
    for (size_t i = 0; i < ARRAY_SIZE(areas); i++) {
        d.area = areas[i].area;
        areas[i].look(&d);
    }
    if (d.failed)
        rc = cli_out_of_memory();
    else if (cli_format(cli) == TEXTABLE_ALIGNED)
        rc = print_text(cli, &d);
    else
        rc = print_table(cli, &d);
    doctor_release(&d);
    return rc;
}
