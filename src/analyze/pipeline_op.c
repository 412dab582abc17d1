/* pipeline_op.c -- the stages of an input pipeline, and which of them hold it up.
 *
 * Queues are the edges: each is filled by one stage and emptied by another. A queue that knows no
 * producer is no part of the picture. */
#include "analyze/analysis.h"
#include "analyze/queues.h"
#include "base/alloc.h"
#include "base/error.h"
#include <math.h>
#include <stdlib.h>

/* A consumer that finds its queue empty this often waits for data. */
#define STARVING 0.3

/* Thresholds of the two rules of MindInsight. */
#define R05_HIGH 0.8
#define R05_LOW 0.2
#define MASTER_HIGH 0.8
#define MASTER_LOW 0.6
#define MASTER_STEP 0.1

struct stage {
    const struct queue *out;
    int64_t distance; /* 0: not known yet */
    int64_t ninput;
    double input_usage, input_empty_share; /* of the emptiest */
    double input_usage_min, input_usage_max;
    bool bottleneck, r05, master;
};

struct pipeline {
    const struct queue *queue;
    size_t nqueue;
    struct stage *stage; /* one for each queue with a producer */
    size_t nstage;
};

static bool feeds(const struct stage *from, const struct stage *to)
{
    return from->out->consumer && from->out->consumer == to->out->producer &&
           from->out->rank == to->out->rank;
}

static void inputs_find(struct pipeline *p, struct stage *s)
{
    s->input_usage = s->input_empty_share = s->input_usage_min = s->input_usage_max = NAN;
    for (size_t i = 0; i < p->nstage; i++) {
        const struct queue *q = p->stage[i].out;

        if (!feeds(&p->stage[i], s) || &p->stage[i] == s)
            continue;
        s->ninput++;
        s->input_usage_min = fmin(s->input_usage_min, q->usage);
        s->input_usage_max = fmax(s->input_usage_max, q->usage);
        s->input_empty_share = fmax(s->input_empty_share, q->empty_share);
    }
    s->input_usage = s->input_usage_min;
}

/* How far each stage is from the last consumer. Stages in a circle stay without a distance. */
static void distances_find(struct pipeline *p)
{
    for (size_t i = 0; i < p->nstage; i++) {
        bool last = true;

        for (size_t k = 0; k < p->nstage; k++)
            last &= !feeds(&p->stage[i], &p->stage[k]);
        p->stage[i].distance = last;
    }
    for (int64_t d = 1; d <= (int64_t)p->nstage; d++)
        for (size_t i = 0; i < p->nstage; i++)
            for (size_t k = 0; p->stage[i].distance == d && k < p->nstage; k++)
                if (feeds(&p->stage[k], &p->stage[i]) && p->stage[k].distance == 0)
                    p->stage[k].distance = d + 1;
}

/* From a stage whose output runs empty up the stream to those that have enough to do: a stage that
 * waits for its own input is not to blame. */
static void blame(struct pipeline *p, struct stage *s, size_t depth)
{
    bool waits = false;

    for (size_t i = 0; i < p->nstage && depth < p->nstage; i++) {
        if (feeds(&p->stage[i], s) && p->stage[i].out->empty_share > STARVING) {
            waits = true;
            blame(p, &p->stage[i], depth + 1);
        }
    }
    s->bottleneck |= !waits;
}

/* MindInsight's rules say that the last stage is the bottleneck if all queues are full, although
 * then data is not: they are here for comparison. They know stages with a queue of known size only;
 * the last of these is the root. */
static void ancestors_rules(struct pipeline *p)
{
    for (size_t i = 0; i < p->nstage; i++) {
        struct stage *s = &p->stage[i];
        double usage = s->out->usage;
        bool all_low = true, all_high = true;
        int64_t root = INT64_MAX;

        for (size_t k = 0; k < p->nstage; k++) {
            const struct stage *other = &p->stage[k];

            if (other->out->rank != s->out->rank || isnan(other->out->usage))
                continue;
            all_low &= other->out->usage < R05_LOW;
            all_high &= other->out->usage >= R05_HIGH;
            if (other->distance)
                root = MIN(root, other->distance);
        }
        if (all_high)
            s->r05 = s->master = s->distance == root;
        else if (all_low)
            s->r05 = s->ninput == 0;
        else
            s->r05 = s->ninput && s->input_usage_min >= R05_HIGH && usage < R05_LOW;
        if (!all_high)
            s->master = (s->ninput && s->input_usage_max - usage > MASTER_STEP) ||
                        (s->ninput == 0 && usage < MASTER_LOW);
    }
}

static int by_distance(const void *va, const void *vb)
{
    const struct stage *a = va, *b = vb;

    if (a->out->rank != b->out->rank)
        return a->out->rank < b->out->rank ? -1 : 1;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return a->out->track < b->out->track ? -1 : a->out->track > b->out->track;
}

static int add_row(struct table *out, const struct stage *s)
{
    struct cell c[pipeline_op_col_COUNT];
    bool known = !isnan(s->out->usage);

    c[pipeline_op_col_stage] = cell_str(s->out->producer);
    c[pipeline_op_col_rank] = cell_i64(s->out->rank);
    c[pipeline_op_col_distance] = cell_i64(s->distance ? s->distance : OPM_NULL_I64);
    c[pipeline_op_col_workers] = cell_i64(s->out->workers);
    c[pipeline_op_col_inputs] = cell_i64(s->ninput);
    c[pipeline_op_col_input_usage] = cell_f64(s->input_usage);
    c[pipeline_op_col_input_empty_share] = cell_f64(s->input_empty_share);
    c[pipeline_op_col_output] = cell_id(s->out->track);
    c[pipeline_op_col_output_usage] = cell_f64(s->out->usage);
    c[pipeline_op_col_output_empty_share] = cell_f64(s->out->empty_share);
    c[pipeline_op_col_bottleneck] = cell_i64(s->bottleneck);
    c[pipeline_op_col_bottleneck_r05] = cell_i64(known ? s->r05 : OPM_NULL_I64);
    c[pipeline_op_col_bottleneck_master] = cell_i64(known ? s->master : OPM_NULL_I64);
    return table_add(out, c);
}

int analyze_pipeline_op(const struct store *st, struct table *out, opm_error *err)
{
    struct pipeline p = { 0 };
    struct queue *queue = NULL;
    int rc = queues_collect(st, &queue, &p.nqueue);

    p.queue = queue;
    p.stage = rc ? NULL : mem_calloc(p.nqueue + 1, sizeof(*p.stage));
    if (rc == 0 && !p.stage)
        rc = OPM_ENOMEM;
    for (size_t i = 0; rc == 0 && i < p.nqueue; i++)
        if (queue[i].producer)
            p.stage[p.nstage++].out = &queue[i];
    for (size_t i = 0; i < p.nstage; i++)
        inputs_find(&p, &p.stage[i]);
    distances_find(&p);
    ancestors_rules(&p);
    for (size_t i = 0; i < p.nstage; i++)
        if (p.stage[i].distance == 1 && p.stage[i].out->empty_share > STARVING)
            blame(&p, &p.stage[i], 0);
    if (p.nstage)
        qsort(p.stage, p.nstage, sizeof(*p.stage), by_distance);
    for (size_t i = 0; rc == 0 && i < p.nstage; i++)
        rc = add_row(out, &p.stage[i]);
    mem_free(p.stage);
    mem_free(queue);
    return rc ? opm__fail(err, rc, "pipeline_op: out of memory") : 0;
}
