/* history_text.c -- a series and its changes in words; see history.h. */
#include "cli/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COMMIT_DIGITS 10
#define NAMED 3 /* operators in a sentence */

const char *history_time(char room[HISTORY_TIME_ROOM], int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || !strftime(room, HISTORY_TIME_ROOM, "%Y-%m-%d %H:%M", &tm))
        snprintf(room, HISTORY_TIME_ROOM, "?");
    return room;
}

void history_title(const struct history_series *s, const struct history *h, struct buf *out)
{
    const struct kept_run *run = &history_run_at(h, s, 0)->run;

    buf_adds(out, run->model ? run->model : "unnamed");
    if (run->engine)
        buf_addf(out, ", %s", run->engine);
    if (run->machine)
        buf_addf(out, ", %s", run->machine);
    if (run->threads > 0)
        buf_addf(out, ", %lld thread%s", (long long)run->threads, human_s(run->threads));
    if (run->batch > 0)
        buf_addf(out, ", batch %lld", (long long)run->batch);
    if (run->sizes)
        buf_addf(out, ", %s", run->sizes);
}

static double percent(double share)
{
    double p = round(1000 * share) / 10;

    return p == 0 ? 0 : p;
}

void history_size(const struct change *c, struct buf *out)
{
    double sign = c->size < 0 ? -1 : 1, low = sign * c->low, high = sign * c->high;

    buf_addf(out, "%.1f %% %s", percent(fabs(c->size)), c->size < 0 ? "faster" : "slower");
    if (!isnan(low) && !isnan(high))
        buf_addf(out, " (%.1f to %.1f)", percent(MIN(low, high)), percent(MAX(low, high)));
}

static void add_place(const struct kept_run *run, struct buf *out)
{
    char when[HISTORY_TIME_ROOM];

    if (run->commit_id)
        buf_addf(out, "%.*s%s", COMMIT_DIGITS, run->commit_id, run->dirty > 0 ? "+" : "");
    else
        buf_adds(out, history_time(when, run->began_ns));
}

void history_range(const struct history *h, const struct history_series *s, const struct change *c,
                   struct buf *out)
{
    size_t before = c->kind == CHANGE_DRIFT || c->at == 0 ? c->at : c->at - 1;

    add_place(&history_run_at(h, s, before)->run, out);
    buf_adds(out, "..");
    add_place(&history_run_at(h, s, c->end)->run, out);
}

static bool differs(const char *a, const char *b)
{
    return a && b && strcmp(a, b) != 0;
}

/* What else is not the same on both sides. */
static void add_differences(const struct kept_run *a, const struct kept_run *b, struct buf *out)
{
    if (differs(a->model_hash, b->model_hash))
        buf_adds(out, "; the model is another one");
    if (differs(a->engine_version, b->engine_version))
        buf_addf(out, "; %s %.40s is now %.40s", a->engine ? a->engine : "the engine",
                 a->engine_version, b->engine_version);
    if (differs(a->version, b->version))
        buf_addf(out, "; opmeter %.40s is now %.40s", a->version, b->version);
    if (differs(a->host, b->host))
        buf_addf(out, "; on %.60s, before on %.60s", b->host, a->host);
}

static void add_culprit(const struct history_culprit *c, struct buf *out)
{
    const char *name = c->name && c->name[0] ? c->name : c->type;

    cli_add_name(out, name);
    if (isnan(c->before))
        buf_adds(out, " is new");
    else if (isnan(c->after))
        buf_adds(out, " is gone");
    else
        buf_addf(out, " %+.1f %%", percent(c->shift.size));
}

static double moved(const struct history_culprit *c)
{
    return (isnan(c->after) ? 0 : c->after) - (isnan(c->before) ? 0 : c->before);
}

/* "; 92 % of it in 4 Conv operators: conv1 +12.5 %, ..." */
static void add_culprits(const struct history_change *c, struct buf *out)
{
    double whole = c->c.after - c->c.before, share = 0;
    const char *type = NULL;
    size_t n = 0, named = 0;

    for (size_t i = 0; i < c->nop; i++) {
        if (moved(&c->op[i]) * whole <= 0)
            continue;
        type = n == 0 || (type && strcmp(type, c->op[i].type) == 0) ? c->op[i].type : NULL;
        share += moved(&c->op[i]) / whole;
        n++;
    }
    if (!n) {
        buf_adds(out, "; no operator explains it");
        return;
    }
    buf_addf(out, "; %.0f %% of it in %zu %s%soperator%s", 100 * MIN(share, 1), n, type ? type : "",
             type && type[0] ? " " : "", human_s((int64_t)n));
    for (size_t i = 0; i < c->nop && named < NAMED; i++) {
        if (moved(&c->op[i]) * whole <= 0)
            continue;
        buf_adds(out, named++ ? ", " : ": ");
        add_culprit(&c->op[i], out);
    }
    if (n > named)
        buf_adds(out, ", …");
}

void history_sentence(const struct history *h, const struct history_series *s,
                      const struct history_change *c, struct buf *out)
{
    size_t before = c->c.at ? c->c.at - 1 : 0;

    history_range(h, s, &c->c, out);
    buf_adds(out, ": ");
    if (c->c.kind == CHANGE_DRIFT)
        buf_addf(out, "drifts, by %.1f %% over %zu runs", percent(c->c.size), c->c.end - c->c.at);
    else
        history_size(&c->c, out);
    if (c->c.kind == CHANGE_MACHINE)
        buf_adds(out, ", the machine: so is a fixed piece of work");
    if (c->c.kind == CHANGE_CODE) {
        add_culprits(c, out);
        add_differences(&history_run_at(h, s, before)->run, &history_run_at(h, s, c->c.at)->run,
                        out);
    }
    buf_adds(out, ".");
}
