/* run.c -- one run with a trace of it; see run.h. */
#include "run/run.h"

#include "base/calm.h"
#include "base/error.h"
#include "run/check.h"
#include "run/generate.h"
#include "run/overdue.h"
#include "run/parts.h"
#include "run/runner.h"

#include <stdio.h>
#include <unistd.h>

/* What the outputs are asked for, before any measuring. */
static int look_at_outputs(struct runner *s, opm_error *err)
{
    int64_t ns;
    int rc;

    if (!s->opt->check && !s->opt->save_outputs)
        return 0;
    rc = runner_iterate(s, false, 0, OPM_WARMUP, &ns, err);
    if (!rc && s->opt->save_outputs)
        rc = save_outputs(s->opt->save_outputs, s->opt->replace_outputs, s->out_value, s->out,
                          s->nout, err);
    if (!rc && s->opt->check)
        rc = check_outputs(&s->ref, s->opt->check, s->out_value, s->out, s->nout, s->opt->atol,
                           s->opt->rtol, check_rounds(s->m), &s->res->check, err);
    return rc;
}

static int generate(struct runner *s, opm_error *err)
{
    struct parts_open p;
    struct calm calm;
    int rc = parts_open(&p, s, err);

    calm_begin(&calm);
    if (!rc && s->opt->ready && s->opt->ready(s->opt->ready_user))
        rc = opm__fail(err, OPM_ELIMIT, "interrupted");
    if (!rc)
        rc = generate_run(s, p.encoder.e ? &p.encoder : NULL, p.first.e ? &p.first : NULL, err);
    if (!rc) {
        calm_end(&calm);
        calm_describe(&calm, opm_meta);
        runner_describe_run(s);
        parts_describe(&p);
    }
    parts_close(&p, s);
    return rc;
}

static int work(struct runner *s, opm_error *err)
{
    struct calm calm;
    int rc;

    if (s->opt->generate.tokens)
        return generate(s, err);
    rc = runner_open(s, err);
    if (!rc)
        rc = runner_feed(s, NULL, 0, err);
    if (!rc)
        rc = runner_prepare(s, err);
    if (!rc)
        rc = look_at_outputs(s, err);
    calm_begin(&calm);
    if (rc && s->res->stopped && s->opt->keep_partial)
        rc = 0; /* what was recorded so far is the result */
    else if (!rc && s->opt->ready && s->opt->ready(s->opt->ready_user))
        rc = opm__fail(err, OPM_ELIMIT, "interrupted");
    if (!rc)
        rc = runner_measure(s, err);
    if (!rc) {
        calm_end(&calm);
        calm_describe(&calm, opm_meta);
        runner_describe_run(s);
    }
    return rc;
}

static int start_recording(const struct run_options *opt, struct run_result *res, opm_error *err)
{
    opm_options ro = OPM_OPTIONS_INIT;

    if ((size_t)snprintf(res->trace, sizeof(res->trace), "%s/trace.opm", opt->dir) >=
        sizeof(res->trace))
        return opm__fail(err, OPM_EINVAL, "%s: the path is too long", opt->dir);
    ro.path = res->trace;
    ro.counters = opt->counters;
    return MIN(opm_start(&ro, err), 0);
}

static void describe_samples(const struct run_options *opt, const struct sampler_stats *st)
{
    char text[32];

    if (!st->rounds)
        return;
    snprintf(text, sizeof(text), "%g", opt->sample_hz);
    opm_meta("run.sample_hz", text);
    snprintf(text, sizeof(text), "%lld", (long long)st->cpu_ns);
    opm_meta("run.sample_cpu_ns", text);
}

int run_model(const struct run_options *opt, struct run_result *out, opm_error *err)
{
    struct runner s = { .opt = opt, .res = out };
    struct sampler *sampler = NULL;
    struct overdue *overdue = NULL;
    opm_recorder_stats st;
    int rc, stopped;

    *out = (struct run_result){ 0 };
    rc = start_recording(opt, out, err);
    if (rc)
        return rc;
    opm_thread_name("main");
    /* The first instance looks after all: they are children of one process. */
    if (opt->sample_hz > 0 && opt->instance == 0)
        rc =
            sampler_start(&sampler, opt->sample_hz, opt->instances > 1 ? getppid() : getpid(), err);
    if (!rc) {
        overdue_start(&overdue, opt);
        rc = work(&s, err);
        overdue_stop(overdue);
    }
    sampler_stop(sampler, &out->samples);
    describe_samples(opt, &out->samples);
    opm_stats(&st);
    out->lost = st.lost;
    stopped = opm_stop(rc ? NULL : err);
    if (!rc)
        rc = stopped;
    runner_close(&s);
    return rc;
}
