/* history_answer.c -- see history_answer.h. */
#include "catalog/history_answer.h"

#include <math.h>

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_cstr(w, text);
}

static void put_int(struct json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    if (v == RUNSDB_NONE)
        json_null(w);
    else
        json_i64(w, v);
}

static void put_real(struct json_writer *w, const char *key, double v)
{
    json_key(w, key);
    json_f64(w, v);
}

static void put_run(struct json_writer *w, const struct history_run *r)
{
    json_newline(w);
    json_object(w);
    put_text(w, "id", r->run.id);
    put_int(w, "began_ns", r->run.began_ns);
    put_text(w, "commit", r->run.commit_id);
    put_int(w, "dirty", r->run.dirty);
    put_real(w, "median_ns", r->run.median_ns);
    put_real(w, "p99_ns", r->run.p99_ns);
    put_real(w, "stdev_ns", r->run.stdev_ns);
    put_real(w, "loop_ns", r->run.loop_ns);
    put_real(w, "stolen", r->run.stolen);
    put_real(w, "load", r->run.load);
    put_text(w, "model_hash", r->run.model_hash);
    put_text(w, "engine_version", r->run.engine_version);
    put_text(w, "host", r->run.host);
    put_text(w, "labels", r->labels);
    put_text(w, "trace", r->run.trace);
    json_key(w, "accepted");
    json_bool(w, r->run.accepted > 0);
    json_object_end(w);
}

void history_answer_change(struct json_writer *w, const struct history *h,
                           const struct history_series *s, const struct change *c)
{
    put_text(w, "by", change_kind_names[c->kind]);
    put_int(w, "at", (int64_t)c->at);
    put_int(w, "end", (int64_t)c->end);
    put_text(w, "before_run", history_run_at(h, s, c->at ? c->at - 1 : 0)->run.id);
    put_text(w, "after_run", history_run_at(h, s, c->at)->run.id);
    put_text(w, "before_commit", history_run_at(h, s, c->at ? c->at - 1 : 0)->run.commit_id);
    put_text(w, "after_commit", history_run_at(h, s, c->at)->run.commit_id);
    put_real(w, "before_ns", c->before);
    put_real(w, "after_ns", c->after);
    put_real(w, "change", c->size);
    put_real(w, "low", c->low);
    put_real(w, "high", c->high);
}

static void put_culprits(struct json_writer *w, const char *key, const struct history_culprit *c,
                         size_t n)
{
    json_key(w, key);
    json_array(w);
    for (size_t i = 0; i < n; i++) {
        json_object(w);
        if (c[i].name)
            put_text(w, "name", c[i].name);
        put_text(w, "type", c[i].type);
        put_real(w, "before_ns", c[i].before);
        put_real(w, "after_ns", c[i].after);
        put_real(w, "change", c[i].shift.size);
        put_real(w, "low", c[i].shift.low);
        put_real(w, "high", c[i].shift.high);
        json_object_end(w);
    }
    json_array_end(w);
}

void history_answer_series(struct json_writer *w, const struct history *h,
                           const struct history_series *s)
{
    const struct kept_run *first = &history_run_at(h, s, 0)->run;

    put_text(w, "model", first->model);
    put_text(w, "engine", first->engine);
    put_text(w, "machine", first->machine);
    put_int(w, "threads", first->threads);
    put_int(w, "batch", first->batch);
    put_text(w, "sizes", first->sizes);
    put_text(w, "basis", first->basis);
    put_real(w, "noise", s->noise);
    json_key(w, "runs");
    json_array(w);
    for (size_t i = 0; i < s->n; i++)
        put_run(w, history_run_at(h, s, i));
    json_array_end(w);
    json_key(w, "changes");
    json_array(w);
    for (size_t k = 0; k < s->nchange; k++) {
        json_newline(w);
        json_object(w);
        history_answer_change(w, h, s, &s->change[k].c);
        put_culprits(w, "types", s->change[k].type, s->change[k].ntype);
        put_culprits(w, "operators", s->change[k].op, s->change[k].nop);
        json_object_end(w);
    }
    json_array_end(w);
}
