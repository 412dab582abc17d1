/* parts.c -- see parts.h. */
#include "run/parts.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "graph/zoo.h"
#include "run/generate.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENCODER "encoder_model"
#define FIRST "decoder_model"
#define NEXT "decoder_with_past_model"
#define MERGED "decoder_model_merged"

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool run_has_encoder(const char *model, const char *encoder)
{
    struct run_options o = { .model = model, .generate = { .encoder = encoder } };
    struct parts p;

    return parts_find(&p, &o, NULL) == 0 && p.encoder[0];
}

static int too_long(const char *path, opm_error *err)
{
    return opm__fail(err, OPM_EINVAL, "%.200s: the path is too long", path);
}

/* DIR/SUB/NAME.onnx, if there is one: out is "" otherwise. */
static bool look(const char *dir, const char *sub, const char *name, char *out)
{
    int n = snprintf(out, FOLDER_PATH_MAX, "%s/%s%s.onnx", dir, sub, name);

    if (n < FOLDER_PATH_MAX && access(out, F_OK) == 0)
        return true;
    out[0] = '\0';
    return false;
}

static bool look_all(struct parts *p, const char *dir, const char *sub)
{
    static const char *const alone[] = { MERGED, "model", "model_merged" };
    bool pair = false;

    look(dir, sub, ENCODER, p->encoder);
    for (size_t i = 0; i < ARRAY_SIZE(alone); i++)
        if (look(dir, sub, alone[i], p->decoder))
            return true;
    if (look(dir, sub, NEXT, p->decoder))
        pair = look(dir, sub, FIRST, p->first);
    else /* one without a cache, which is told of when it is read */
        return look(dir, sub, FIRST, p->decoder);
    if (!pair)
        p->decoder[0] = '\0';
    return pair;
}

static int find_in_folder(struct parts *p, const char *dir, opm_error *err)
{
    size_t n = strlen(dir);
    char plain[FOLDER_PATH_MAX];

    while (n > 1 && dir[n - 1] == '/')
        n--;
    if (n > sizeof(plain) - 64)
        return too_long(dir, err);
    snprintf(plain, sizeof(plain), "%.*s", (int)n, dir);
    if (look_all(p, plain, "") || look_all(p, plain, "onnx/"))
        return 0;
    return opm__fail(err, OPM_ENOTFOUND,
                     "%.200s: a folder without a decoder: neither in it nor in its onnx/ is " MERGED
                     ".onnx, " NEXT ".onnx beside " FIRST ".onnx, or model.onnx",
                     dir);
}

/* "zoo:NAME?...&part=PART" without the part that is in it. */
static int zoo_part(const char *name, const char *part, char *out)
{
    const char *old = strstr(name, "part="), *rest = old ? old + strcspn(old, "&") : "";
    int head = old ? (int)(old - name) : (int)strlen(name);
    const char *link = old ? "" : strchr(name, '?') ? "&" : "?";

    return snprintf(out, FOLDER_PATH_MAX, "%.*s%spart=%s%s", head, name, link, part, rest) <
                   FOLDER_PATH_MAX
               ? 0
               : OPM_EINVAL;
}

static int find_in_zoo(struct parts *p, const char *name, opm_error *err)
{
    const char *part = strstr(name, "part="), *decoder = MERGED;
    size_t n = part ? strcspn(part + 5, "&") : 0;
    int rc = zoo_part(name, ENCODER, p->encoder);

    for (size_t i = 0; part && zoo_parts[i]; i++)
        if (strlen(zoo_parts[i]) == n && strncmp(zoo_parts[i], part + 5, n) == 0)
            decoder = zoo_parts[i];
    if (strcmp(decoder, ENCODER) == 0)
        return opm__fail(err, OPM_EINVAL, "%.200s: --generate wants a decoder, not the encoder",
                         name);
    if (!rc)
        rc = zoo_part(name, decoder, p->decoder);
    if (!rc && strcmp(decoder, NEXT) == 0)
        rc = zoo_part(name, FIRST, p->first);
    return rc ? too_long(name, err) : 0;
}

/* DIR/decoder_with_past_model_fp16.onnx has DIR/decoder_model_fp16.onnx beside it. */
static int find_first(struct parts *p, const char *model, opm_error *err)
{
    const char *name = strrchr(model, '/'), *at = strstr(name ? name : model, NEXT);

    if (!at)
        return 0;
    if (snprintf(p->first, sizeof(p->first), "%.*s" FIRST "%s", (int)(at - model), model,
                 at + strlen(NEXT)) >= (int)sizeof(p->first))
        return too_long(model, err);
    if (access(p->first, F_OK) == 0)
        return 0;
    return opm__fail(err, OPM_ENOTFOUND,
                     "%.200s: it goes on from a cache, and %.200s, which would read the prompt, is "
                     "not there",
                     model, p->first);
}

int parts_find(struct parts *p, const struct run_options *opt, opm_error *err)
{
    const char *encoder = opt->generate.encoder;
    int rc = 0;

    *p = (struct parts){ 0 };
    if (zoo_takes(opt->model, "part"))
        rc = find_in_zoo(p, opt->model, err);
    else if (is_folder(opt->model))
        rc = find_in_folder(p, opt->model, err);
    else if (snprintf(p->decoder, sizeof(p->decoder), "%s", opt->model) >= (int)sizeof(p->decoder))
        rc = too_long(opt->model, err);
    else
        rc = find_first(p, opt->model, err);
    if (!rc && encoder &&
        snprintf(p->encoder, sizeof(p->encoder), "%s", encoder) >= (int)sizeof(p->encoder))
        rc = too_long(encoder, err);
    return rc;
}

/* -- opened -- */

/* As many rows as there are prompts, unless it is said how many. */
static int rows_wanted(const struct run_options *o, int64_t *batch, opm_error *err)
{
    int64_t *id = NULL, rows = 0, len;
    int rc = 0;

    if (!o->batch_size && o->generate.prompt_ids)
        rc = prompt_read(o->generate.prompt_ids, 0, &id, &rows, &len, err);
    mem_free(id);
    *batch = o->batch_size ? o->batch_size : rows > 1 ? rows : 0;
    return rc;
}

static int open_part(struct runner *r, struct runner *s, opm_error *err)
{
    int64_t load = s->res->load_ns, open = s->res->open_ns;
    int rc = runner_open(r, err);

    s->res->load_ns += load;
    s->res->open_ns += open;
    return rc;
}

int parts_open(struct parts_open *p, struct runner *s, opm_error *err)
{
    struct parts name;
    char label[sizeof(s->res->model)];
    int64_t rows = 0;
    int rc;

    *p = (struct parts_open){ .given = s->opt, .decoder_opt = *s->opt };
    rc = parts_find(&name, s->opt, err);
    if (!rc && name.encoder[0])
        rc = rows_wanted(s->opt, &rows, err);
    if (rc)
        return rc;
    run_model_label(s->opt->model, label, sizeof(label));
    p->encoder_opt = p->first_opt = p->decoder_opt;
    p->decoder_opt.model = name.decoder;
    p->first_opt.model = name.first;
    p->encoder_opt.model = name.encoder;
    p->encoder_opt.generate = (struct run_generate){ 0 };
    p->encoder_opt.batch_size = rows;
    s->opt = &p->decoder_opt;
    p->encoder.opt = &p->encoder_opt;
    p->first.opt = &p->first_opt;
    p->encoder.res = p->first.res = s->res;
    if (name.encoder[0])
        rc = open_part(&p->encoder, s, err);
    if (!rc && name.encoder[0])
        rc = runner_feed(&p->encoder, NULL, 0, err);
    if (!rc && name.encoder[0])
        rc = runner_prepare(&p->encoder, err);
    if (!rc && name.first[0])
        rc = open_part(&p->first, s, err);
    if (!rc)
        rc = open_part(s, s, err);
    snprintf(s->res->model, sizeof(s->res->model), "%s", label);
    if (!rc && p->encoder.e)
        s->beside[0] = &p->encoder;
    if (!rc && p->first.e)
        s->beside[1] = &p->first;
    /* Names outlive them nowhere: the models have copies. */
    p->decoder_opt.model = p->first_opt.model = p->encoder_opt.model = p->given->model;
    return rc;
}

void parts_describe(const struct parts_open *p)
{
    if (p->encoder.m) {
        opm_meta("generate.encoder", p->encoder.m->name);
        runner_describe_inputs(&p->encoder);
    }
    if (p->first.m)
        opm_meta("generate.first", p->first.m->name);
}

void parts_close(struct parts_open *p, struct runner *s)
{
    s->beside[0] = s->beside[1] = NULL;
    runner_close(&p->encoder);
    runner_close(&p->first);
    if (p->given)
        s->opt = p->given;
}
