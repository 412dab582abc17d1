/* bench_files.c -- what other programs take: Markdown for a comment, JUnit XML, a picture; see
 * bench.h. */
#include "cli/bench.h"

#include <string.h>

int bench_markdown(struct bench *b, const struct comparison *c, int64_t top, const char *picture)
{
    struct buf text = { 0 };
    int rc = CLI_OK;

    for (size_t s = 1; s < b->trials.nsides && rc == CLI_OK; s++) {
        struct textable *t = comparison_table(&c[s], (size_t)top);
        opm_error err;

        buf_clear(&text);
        comparison_sentence(&c[s], &b->options, bench_sample_ns(b), &text);
        io_out_addf(&b->cli->out, "%s**%s**\n\n", s > 1 ? "\n" : "", buf_str(&text));
        if (!picture) {
            buf_clear(&text);
            bench_picture_text(b, &c[s], &text);
            io_out_addf(&b->cli->out, "```text\n%s```\n\n", buf_str(&text));
        } else if (s == 1) {
            io_out_addf(&b->cli->out, "![changes with their 95 %% intervals](<%s>)\n\n", picture);
        }
        if (!t)
            rc = cli_out_of_memory();
        else if (textable_print(t, &b->cli->out, TEXTABLE_MARKDOWN, 0, false, &err) < 0)
            rc = cli_error("%s", err.msg);
        textable_free(t);
        buf_clear(&text);
        comparison_alone(&c[s], &text);
        if (rc == CLI_OK && text.len)
            io_out_addf(&b->cli->out, "\n%s\n", buf_str(&text));
    }
    buf_clear(&text);
    bench_circumstances(b, &text);
    if (rc == CLI_OK)
        io_out_addf(&b->cli->out, "\n%s\n", buf_str(&text));
    buf_release(&text);
    return rc;
}

int bench_may_write(const char *path)
{
    struct io_out out;
    opm_error err;

    if (io_out_open(&out, path, &err) < 0)
        return cli_error("%s", err.msg);
    io_out_close(&out, false, NULL);
    return CLI_OK;
}

static int write_file(const char *path, const struct buf *text)
{
    struct io_out out;
    opm_error err;

    if (text->failed)
        return cli_out_of_memory();
    if (io_out_open(&out, path, &err) < 0)
        return cli_error("%s", err.msg);
    io_out_add(&out, text->data, text->len);
    return io_out_close(&out, true, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

int bench_svg(const struct bench *b, const struct comparison *c, const char *path)
{
    struct buf text = { 0 };
    int rc;

    bench_picture_svg(b, c, &text);
    rc = write_file(path, &text);
    buf_release(&text);
    return rc;
}

/* -- JUnit -- */

struct junit {
    struct buf cases;
    size_t n, failed, skipped, errors;
};

static void add_case(struct junit *j, const struct bench *b, char letter, const char *name)
{
    buf_addf(&j->cases, "  <testcase classname=\"opmeter.bench.%c\" name=\"", letter);
    bench_add_xml(&j->cases, name);
    buf_addf(&j->cases, "\" time=\"%.3f\">\n", (double)b->spent_ns / 1e9);
    j->n++;
}

static void add_outcome(struct junit *j, enum comparison_told told, const char *why)
{
    if (told != TOLD_GOOD) {
        buf_addf(&j->cases, "    <%s message=\"", told == TOLD_BAD ? "failure" : "skipped");
        bench_add_xml(&j->cases, why);
        buf_adds(&j->cases, "\"/>\n");
    }
    j->failed += told == TOLD_BAD;
    j->skipped += told == TOLD_NOTHING;
}

static void end_case(struct junit *j, const char *said)
{
    buf_adds(&j->cases, "    <system-out>");
    bench_add_xml(&j->cases, said);
    buf_adds(&j->cases, "</system-out>\n  </testcase>\n");
}

/* Each check is a case; without checks the latency of each side, which fails if it is slower. */
static void add_side(struct junit *j, const struct bench *b, const struct comparison *c,
                     const struct diff_check *check, size_t n)
{
    struct buf said = { 0 }, why = { 0 };

    comparison_sentence(c, &b->options, bench_sample_ns(b), &said);
    for (size_t i = 0; i < n; i++) {
        enum comparison_told told;

        buf_clear(&why);
        add_case(j, b, c->letter, check[i].text);
        told = comparison_check(c, &b->trials, &check[i], &why);
        add_outcome(j, told, buf_str(&why));
        end_case(j, buf_str(&said));
    }
    if (!n) {
        enum trials_verdict v = c->e[0].verdict;

        add_case(j, b, c->letter, "latency");
        add_outcome(j,
                    v == TRIALS_SLOWER   ? TOLD_BAD
                    : v == TRIALS_UNSURE ? TOLD_NOTHING
                                         : TOLD_GOOD,
                    buf_str(&said));
        end_case(j, buf_str(&said));
    }
    buf_release(&said);
    buf_release(&why);
}

int bench_junit(const struct bench *b, const struct comparison *c, const struct diff_check *check,
                size_t n, const char *path)
{
    struct junit j = { 0 };
    struct buf text = { 0 };
    int rc;

    for (size_t s = 1; s < b->trials.nsides && c; s++)
        add_side(&j, b, &c[s], check, n);
    if (!c) {
        add_case(&j, b, 'A', "processes");
        buf_adds(&j.cases, "    <error message=\"a side did not run, or too few of its processes "
                           "did; standard error says why\"/>\n  </testcase>\n");
        j.errors = 1;
    }
    buf_addf(&text,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"opmeter "
             "bench\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" "
             "time=\"%.3f\">\n",
             j.n, j.failed, j.errors, j.skipped, (double)b->spent_ns / 1e9);
    buf_add(&text, buf_str(&j.cases), j.cases.len);
    buf_adds(&text, "</testsuite>\n</testsuites>\n");
    text.failed |= j.cases.failed;
    rc = write_file(path, &text);
    buf_release(&j.cases);
    buf_release(&text);
    return rc;
}
