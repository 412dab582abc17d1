/* queue_steps.c -- which tracks a queue is, and how often it was found empty or full in every step.
 */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "analyze/queues.h"
#include "analyze/step_list.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdlib.h>

struct counted {
    int64_t samples, empty, full;
    double sum;
};

/* The samples of a store, of which the queues of one rank at a time are counted. */
struct input {
    const struct store *st;
    struct queue *queue;
    size_t nqueue;
    uint32_t *of_track;
    struct step_list steps;
};

/* Steps of one rank do not overlap as a rule; where they do, the one that began last has it. */
static size_t step_at(const struct step_list *l, int64_t rank, int64_t ts_ns)
{
    size_t low = 0, high = l->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l->row[mid].from_ns <= ts_ns)
            low = mid + 1;
        else
            high = mid;
    }
    while (low-- > 0)
        if (l->row[low].rank == rank || l->row[low].rank == OPM_NULL_I64 || rank == OPM_NULL_I64)
            return ts_ns < l->row[low].to_ns ? low : l->n;
    return l->n;
}

static void count(struct counted *c, const struct queue *q, double value)
{
    c->samples++;
    c->sum += value;
    c->empty += value <= 0;
    c->full += q->capacity > 0 && value >= (double)q->capacity;
}

static int add_row(struct table *out, const struct queue *q, const struct step_row *s,
                   const struct counted *c)
{
    struct cell cell[queue_steps_col_COUNT];

    cell[queue_steps_col_track] = cell_id(q->track);
    cell[queue_steps_col_name] = cell_str(q->name);
    cell[queue_steps_col_rank] = cell_i64(q->rank);
    cell[queue_steps_col_step] = cell_id(s->step);
    cell[queue_steps_col_num] = cell_i64(s->num);
    cell[queue_steps_col_warmup] = cell_i64(s->warmup);
    cell[queue_steps_col_samples] = cell_i64(c->samples);
    cell[queue_steps_col_empty] = cell_i64(c->empty);
    cell[queue_steps_col_full] = cell_i64(q->capacity > 0 ? c->full : OPM_NULL_I64);
    cell[queue_steps_col_mean_size] = cell_f64(c->sum / (double)c->samples);
    return table_add(out, cell);
}

/* Samples are in the order of time, and so are the steps: what is counted of a queue is complete
 * when its next sample is in another step. */
static int count_all(const struct input *in, struct table *out)
{
    struct counted *c = mem_calloc(in->nqueue + 1, sizeof(*c));
    size_t *at = mem_alloc((in->nqueue + 1) * sizeof(*at));
    size_t nsample = in->nqueue ? store_nrow(in->st, TABLE_sample) : 0;
    int rc = c && at ? 0 : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < in->nqueue; i++)
        at[i] = in->steps.n;
    for (size_t i = 0; rc == 0 && i < nsample; i++) {
        struct cell track = store_cell(in->st, TABLE_sample, i, sample_col_track);
        struct cell ts = store_cell(in->st, TABLE_sample, i, sample_col_ts);
        struct cell value = store_cell(in->st, TABLE_sample, i, sample_col_value);
        uint32_t k = track.kind == CELL_I64 ? in->of_track[track.i64] : 0;
        size_t step;

        if (!k || ts.kind != CELL_I64 || value.kind != CELL_F64)
            continue;
        k--;
        step = step_at(&in->steps, in->queue[k].rank, ts.i64);
        if (step != at[k] && c[k].samples)
            rc = add_row(out, &in->queue[k], &in->steps.row[at[k]], &c[k]);
        if (step != at[k])
            c[k] = (struct counted){ 0 };
        at[k] = step;
        if (step < in->steps.n)
            count(&c[k], &in->queue[k], value.f64);
    }
    for (size_t k = 0; rc == 0 && k < in->nqueue; k++)
        if (c[k].samples)
            rc = add_row(out, &in->queue[k], &in->steps.row[at[k]], &c[k]);
    mem_free(at);
    mem_free(c);
    return rc;
}

int analyze_queue_steps(const struct store *st, struct table *out, opm_error *err)
{
    struct input in = { .st = st };
    int rc = queues_of_tracks(st, &in.queue, &in.nqueue, &in.of_track);

    if (rc == 0)
        rc = step_list_get(&in.steps, st);
    if (rc == 0)
        rc = count_all(&in, out);
    step_list_release(&in.steps);
    mem_free(in.of_track);
    mem_free(in.queue);
    return rc ? opm__fail(err, rc, "queue_steps: out of memory") : 0;
}

int analyze_queue_track(const struct store *st, struct table *out, opm_error *err)
{
    struct queue *queue = NULL;
    uint32_t *of_track = NULL;
    size_t n;
    int rc = queues_of_tracks(st, &queue, &n, &of_track);

    for (size_t i = 0; rc == 0 && n && i < store_nrow(st, TABLE_track); i++) {
        struct cell cell[queue_track_col_COUNT];

        if (!of_track[i])
            continue;
        cell[queue_track_col_track] = cell_id((uint32_t)i);
        cell[queue_track_col_queue] = cell_id(queue[of_track[i] - 1].track);
        rc = table_add(out, cell);
    }
    mem_free(of_track);
    mem_free(queue);
    return rc ? opm__fail(err, rc, "queue_track: out of memory") : 0;
}
