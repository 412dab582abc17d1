/* info_gguf.c -- what `opmeter info` says of a model of llama.cpp. */
#include "cli/info_gguf.h"

#include "run/gguf.h"

#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES 16

bool info_is_gguf(const char *path)
{
    char head[HEAD_BYTES];
    size_t len = 0;
    struct stat st;

    /* What is read of a pipe is gone. */
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           io_head(path, head, sizeof(head), &len, NULL) == 0 && gguf_sniff(head, len);
}

static void fact(struct cli *cli, const char *label, struct buf *b)
{
    cli_clean(b);
    if (b->len)
        cli_fact(cli, label, b);
    buf_clear(b);
}

/* ", 32 layers", if it is known. */
static void add_number(struct buf *b, int64_t v, const char *what)
{
    char room[HUMAN_ROOM];

    if (v >= 0)
        buf_addf(b, "%s%s %s", b->len ? ", " : "", human_count(room, v), what);
}

static void print_text(struct cli *cli, const struct gguf_file *f)
{
    char a[HUMAN_ROOM], c[HUMAN_ROOM];
    struct buf b = { 0 };

    buf_addf(&b, "a model for llama.cpp (GGUF, version %u), no trace", f->version);
    fact(cli, "what", &b);
    buf_addf(&b, "%s%s%s", f->name, *f->name && *f->architecture ? ", " : "", f->architecture);
    fact(cli, "model", &b);
    add_number(&b, f->layers, "layers");
    add_number(&b, f->width, "wide");
    add_number(&b, f->inner, "inside");
    add_number(&b, f->heads, "heads");
    if (f->kv_heads >= 0 && f->kv_heads != f->heads)
        add_number(&b, f->kv_heads, "of keys and values");
    add_number(&b, f->experts, "experts");
    if (f->experts > 0 && f->experts_used >= 0)
        buf_addf(&b, " (%s of them for a token)", human_count(a, f->experts_used));
    fact(cli, "shape", &b);
    add_number(&b, f->vocabulary, "words");
    if (*f->tokenizer)
        buf_addf(&b, "%s%s", b.len ? ", " : "", f->tokenizer);
    fact(cli, "tokenizer", &b);
    add_number(&b, f->context, "tokens");
    fact(cli, "context", &b);
    if (f->elements >= 0)
        buf_addf(&b, "%s parameters in ", human_count(a, f->elements));
    buf_addf(&b, "%s tensors", human_count(a, (int64_t)MIN(f->tensors, (uint64_t)INT64_MAX)));
    if (f->bytes >= 0) {
        buf_addf(&b, ", %s", human_bytes(a, (uint64_t)f->bytes));
        if (f->elements > 0)
            buf_addf(&b, ", %.2f bits each", 8.0 * (double)f->bytes / (double)f->elements);
    }
    fact(cli, "weights", &b);
    if (f->kv_bytes >= 0) {
        buf_addf(&b, "%s for a token, as fp16", human_bytes(a, (uint64_t)f->kv_bytes));
        if (f->context > 0 && f->kv_bytes < INT64_MAX / f->context)
            buf_addf(&b, "; %s for the whole context",
                     human_bytes(c, (uint64_t)(f->kv_bytes * f->context)));
    }
    fact(cli, "cache", &b);
    if (f->missing)
        buf_addf(&b, "the file ends %s before its weights do",
                 human_bytes(a, (uint64_t)f->missing));
    fact(cli, "cut short", &b);
    buf_release(&b);
}

static void put_known(struct textable *t, int64_t v)
{
    if (v < 0)
        textable_null(t);
    else
        textable_int(t, v);
}

static int print_types(struct cli *cli, const struct gguf_file *f)
{
    struct textable *t = textable_new();

    if (!t)
        return cli_out_of_memory();
    textable_column(t, "type", TEXTABLE_TEXT);
    textable_column(t, "tensors", TEXTABLE_INT);
    textable_column(t, "parameters", TEXTABLE_INT);
    textable_column(t, "bytes", TEXTABLE_INT);
    for (size_t i = 0; i < f->ntype; i++) {
        const struct gguf_type_sum *s = &f->type[i];

        textable_text(t, s->name, strlen(s->name));
        textable_int(t, s->tensors);
        put_known(t, s->elements);
        put_known(t, s->bytes);
    }
    io_out_addf(&cli->out, "\n");
    return cli_print_table(cli, t);
}

static void number(struct json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    if (v < 0)
        json_null(w);
    else
        json_i64(w, v);
}

static void print_json(struct cli *cli, const struct gguf_file *f)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };

    json_object(&w);
    json_key(&w, "format");
    json_cstr(&w, "gguf");
    number(&w, "version", f->version);
    json_key(&w, "name");
    json_cstr(&w, *f->name ? f->name : NULL);
    json_key(&w, "architecture");
    json_cstr(&w, *f->architecture ? f->architecture : NULL);
    number(&w, "layers", f->layers);
    number(&w, "width", f->width);
    number(&w, "inner", f->inner);
    number(&w, "heads", f->heads);
    number(&w, "kv_heads", f->kv_heads);
    number(&w, "context", f->context);
    number(&w, "vocabulary", f->vocabulary);
    number(&w, "experts", f->experts);
    number(&w, "experts_used", f->experts_used);
    number(&w, "parameters", f->elements);
    number(&w, "weight_bytes", f->bytes);
    number(&w, "kv_bytes_per_token", f->kv_bytes);
    number(&w, "missing_bytes", f->missing);
    json_key(&w, "types");
    json_array(&w);
    for (size_t i = 0; i < f->ntype; i++) {
        json_object(&w);
        json_key(&w, "type");
        json_cstr(&w, f->type[i].name);
        number(&w, "tensors", f->type[i].tensors);
        number(&w, "parameters", f->type[i].elements);
        number(&w, "bytes", f->type[i].bytes);
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    io_out_addf(&cli->out, "%s\n", buf_str(&b));
    buf_release(&b);
}

int info_gguf(struct cli *cli, const char *path)
{
    struct gguf_file f;
    char room[HUMAN_ROOM];
    struct buf b = { 0 };
    struct stat st;
    opm_error err;

    if (gguf_open(path, &f, &err) < 0)
        return cli_error("%s", err.msg);
    if (cli->json) {
        print_json(cli, &f);
        return CLI_OK;
    }
    buf_addf(&b, "%s", path);
    if (stat(path, &st) == 0)
        buf_addf(&b, ", %s", human_bytes(room, (uint64_t)st.st_size));
    cli_clean(&b);
    cli_heading(cli, "%s", buf_str(&b));
    io_out_addf(&cli->out, "\n");
    buf_release(&b);
    print_text(cli, &f);
    return print_types(cli, &f);
}
