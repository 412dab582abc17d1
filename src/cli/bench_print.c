/* bench_print.c -- what `opmeter bench` says at the end; see bench.h. */
#include "cli/bench.h"

#include <stdio.h>
#include <string.h>

void bench_circumstances(const struct bench *b, struct buf *out)
{
    size_t blocks = trials_blocks(&b->trials);
    double swing = b->loop_min_ns > 0 ? b->loop_max_ns / b->loop_min_ns - 1 : 0;

    buf_addf(
        out,
        "%zu processes of each side in %zu blocks, %.0f s, compared by %s; 95 %% intervals. "
        "Meanwhile a fixed loop differed by up to %.0f %%, %.1f %% of the processors' time was "
        "stolen, and the load was %.1f.",
        blocks * TRIALS_PER_BLOCK, blocks, (double)b->spent_ns / 1e9,
        recording_basis_names[b->basis], 100 * swing, 100 * b->stolen, b->load);
    if (swing > 0.1 || b->stolen > 0.02)
        buf_adds(out, " That is not calm: intervals are wider for it.");
}

double bench_sample_ns(const struct bench *b)
{
    size_t blocks = trials_blocks(&b->trials);

    return blocks ? (double)b->spent_ns / (double)blocks : 0;
}

static int print_people(struct bench *b, const struct comparison *c, int64_t top)
{
    struct textable *t = comparison_table(c, (size_t)top);
    struct buf text = { 0 };
    int rc;

    comparison_sentence(c, &b->options, bench_sample_ns(b), &text);
    io_out_addf(&b->cli->out, "\n");
    cli_heading(b->cli, "%s", buf_str(&text));
    buf_release(&text);
    rc = cli_print_table(b->cli, t);
    comparison_alone(c, &text);
    if (rc == CLI_OK && text.len)
        cli_remark(b->cli, "%s", buf_str(&text));
    buf_release(&text);
    return rc;
}

static int print_csv(struct bench *b, const struct comparison *c)
{
    struct textable *t = textable_new();

    if (!t)
        return cli_out_of_memory();
    comparison_csv_columns(t);
    for (size_t s = 1; s < b->trials.nsides; s++)
        comparison_csv(&c[s], t);
    return cli_print_table(b->cli, t);
}

static int print_json(struct bench *b, const struct comparison *c)
{
    struct json_writer w = { .out = &b->cli->out };
    size_t blocks = trials_blocks(&b->trials);

    json_object(&w);
    json_key(&w, "blocks");
    json_f64(&w, (double)blocks);
    json_key(&w, "processes");
    json_f64(&w, (double)(blocks * TRIALS_PER_BLOCK));
    json_key(&w, "seconds");
    json_f64(&w, (double)b->spent_ns / 1e9);
    json_key(&w, "compared_by");
    json_cstr(&w, recording_basis_names[b->basis]);
    json_key(&w, "machine");
    json_object(&w);
    json_key(&w, "loop_min_ns");
    json_f64(&w, b->loop_min_ns);
    json_key(&w, "loop_max_ns");
    json_f64(&w, b->loop_max_ns);
    json_key(&w, "stolen");
    json_f64(&w, b->stolen);
    json_key(&w, "load");
    json_f64(&w, b->load);
    json_object_end(&w);
    json_key(&w, "sides");
    json_array(&w);
    for (size_t s = 0; s < b->trials.nsides; s++) {
        struct buf sentence = { 0 };
        char letter[2] = { b->side[s].letter, '\0' };

        json_newline(&w);
        json_object(&w);
        json_key(&w, "side");
        json_cstr(&w, letter);
        json_key(&w, "command");
        json_cstr(&w, b->side[s].text);
        if (s) {
            comparison_sentence(&c[s], &b->options, bench_sample_ns(b), &sentence);
            json_key(&w, "answer");
            json_cstr(&w, buf_str(&sentence));
            buf_release(&sentence);
            comparison_json(&c[s], &w);
        }
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    io_out_addf(&b->cli->out, "\n");
    return CLI_OK;
}

int bench_print(struct bench *b, const struct comparison *c, int64_t top)
{
    struct buf text = { 0 };
    int rc = CLI_OK;

    if (b->cli->json)
        return print_json(b, c);
    if (b->cli->csv)
        return print_csv(b, c);
    for (size_t s = 0; s < b->trials.nsides; s++)
        cli_say(b->cli, "%c: %s\n", b->side[s].letter, b->side[s].text);
    for (size_t s = 1; s < b->trials.nsides && rc == CLI_OK; s++)
        rc = print_people(b, &c[s], top);
    bench_circumstances(b, &text);
    if (rc == CLI_OK)
        cli_remark(b->cli, "%s", buf_str(&text));
    buf_release(&text);
    return rc;
}
