/* node_cases.c -- run ONNX's backend test cases through the native engine.
 *
 * node_cases [-v | --update] [FOLDER | CASE ...]: each case is a folder with model.onnx and
 * test_data_set_N folders of input_K.pb and output_K.pb. Without arguments, all of Debian's
 * libonnx-testdata. Fails if any result is wrong, or if a case no longer passes that is in
 * node_cases.list, beside this file; --update writes that list. */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/pb.h"
#include "engine/engine.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/usr/share/libonnx-testdata/data"
#define VALUES_MAX 64
#define LEAVES_MAX 64

enum result { PASS, UNSUPPORTED, WRONG, NRESULT };

/* What a file of test data holds: a tensor, or sequences and optionals of them. */
struct case_value {
    struct io_map file;
    struct leaf {
        struct buf bytes; /* a TensorProto, wrapped into a model whose only initializer it is */
        struct model *model;
        void *data;
    } leaf[LEAVES_MAX];
    size_t nleaf;
    struct engine_tensor *list[LEAVES_MAX];
    size_t nlist;
    struct engine_tensor t;
};

static void value_free(struct case_value *v)
{
    for (size_t i = 0; i < v->nleaf; i++) {
        model_free(v->leaf[i].model);
        buf_release(&v->leaf[i].bytes);
        free(v->leaf[i].data);
    }
    for (size_t i = 0; i < v->nlist; i++)
        free(v->list[i]);
    io_map_release(&v->file);
    memset(v, 0, sizeof(*v));
}

static bool tensor_load(struct case_value *v, const void *p, size_t len, struct engine_tensor *out,
                        opm_error *err)
{
    struct leaf *leaf = &v->leaf[v->nleaf];
    const struct tensor *t = NULL;
    struct rd r = rd_of(p, len);
    struct pb_field f;
    size_t graph, opset, info;

    if (v->nleaf == LEAVES_MAX)
        return false;
    v->nleaf++;
    pb_varint(&leaf->bytes, 1, 8); /* ir_version */
    opset = pb_begin(&leaf->bytes, 8);
    pb_varint(&leaf->bytes, 2, 13);
    pb_end(&leaf->bytes, opset);
    graph = pb_begin(&leaf->bytes, 7);
    pb_str(&leaf->bytes, 2, "g");
    info = pb_begin(&leaf->bytes, 5);
    while (pb_next(&r, &f)) /* all but the name */
        if (f.number == 8)
            continue;
        else if (f.wire == PB_LEN)
            pb_bytes(&leaf->bytes, f.number, f.p, f.len);
        else if (f.wire == PB_VARINT)
            pb_varint(&leaf->bytes, f.number, f.value);
        else if (f.wire == PB_I64)
            pb_fixed64(&leaf->bytes, f.number, f.value);
        else
            return false;
    pb_str(&leaf->bytes, 8, "t");
    pb_end(&leaf->bytes, info);
    info = pb_begin(&leaf->bytes, 12);
    pb_str(&leaf->bytes, 1, "t");
    pb_end(&leaf->bytes, info);
    pb_end(&leaf->bytes, graph);
    if (model_parse(&leaf->model, leaf->bytes.data, leaf->bytes.len, "test data", NULL, err) < 0)
        return false;
    for (uint32_t i = 0; i < leaf->model->graph->nvalue; i++)
        if (leaf->model->graph->value[i].data)
            t = leaf->model->graph->value[i].data;
    if (!t)
        return false;
    *out = (struct engine_tensor){ t->type, t->shape, NULL, 0, VALUE_TENSOR };
    out->bytes = (size_t)engine_bytes(&t->shape, t->type);
    leaf->data = aligned_alloc(64, (out->bytes + 64) / 64 * 64);
    if (out->bytes)
        memcpy(leaf->data, t->data, out->bytes);
    out->data = leaf->data;
    return true;
}

/* A SequenceProto or an OptionalProto: fields 3, 5 and 7 hold tensors, sequences and optionals. */
static bool list_load(struct case_value *v, const void *p, size_t len, enum value_kind kind,
                      struct engine_tensor *out, opm_error *err)
{
    struct engine_tensor *item = calloc(LEAVES_MAX, sizeof(*item));
    struct rd r = rd_of(p, len);
    struct pb_field f;
    int64_t n = 0;
    bool ok = item && v->nlist < LEAVES_MAX;

    if (ok)
        v->list[v->nlist++] = item;
    while (ok && pb_next(&r, &f)) {
        if (f.wire != PB_LEN || f.number < 3)
            continue;
        ok = n < LEAVES_MAX &&
             (f.number == 3
                  ? tensor_load(v, f.p, f.len, &item[n], err)
                  : list_load(v, f.p, f.len, f.number == 5 ? VALUE_SEQUENCE : VALUE_OPTIONAL,
                              &item[n], err));
        n++;
    }
    *out = (struct engine_tensor){ TENSOR_NONE, { 1, { n } }, item, 0, kind };
    if (ok && kind == VALUE_OPTIONAL && n == 1)
        *out = item[0];
    return ok;
}

/* 1: read; 0: there is no such file; -1: it holds no such thing. */
static int value_load(struct case_value *out, const char *path, enum value_kind kind,
                      opm_error *err)
{
    bool ok;

    memset(out, 0, sizeof(*out));
    if (access(path, R_OK) < 0)
        return 0;
    if (io_map(&out->file, path, 0, err) < 0)
        return -1;
    ok = kind == VALUE_TENSOR ? tensor_load(out, out->file.data, out->file.len, &out->t, err)
                              : list_load(out, out->file.data, out->file.len, kind, &out->t, err);
    return ok ? 1 : -1;
}

static bool close_enough(double got, double want, enum tensor_type type)
{
    /* Two units in the last place of bfloat16: ONNX's results were rounded at every step. */
    double rtol = type == TENSOR_BF16 ? 0x1p-6 : type == TENSOR_F16 ? 1e-2 : 1e-3;

    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    return fabs(got - want) <= 1e-5 + rtol * fabs(want);
}

/* Results that no two engines have in common: only type and shape are compared. */
static bool is_random(const char *name)
{
    return strstr(name, "/test_bernoulli") || strstr(name, "/test_training_dropout_mask") ||
           strstr(name, "/test_training_dropout/") ||
           strstr(name, "/test_training_dropout_default");
}

static bool same(const struct engine_tensor *got, const struct engine_tensor *want, bool any,
                 char *why, size_t size)
{
    struct tensor t = { "",        got->type,  got->shape, shape_count(&got->shape),
                        got->data, got->bytes, false };
    struct tensor ref = { "",         want->type,  want->shape, shape_count(&want->shape),
                          want->data, want->bytes, false };
    char a[80], b[80];

    if (got->kind != want->kind ||
        (got->kind == VALUE_SEQUENCE && got->shape.dim[0] != want->shape.dim[0])) {
        snprintf(why, size, "another kind of value, or another length");
        return false;
    }
    if (got->kind == VALUE_SEQUENCE) {
        const struct engine_tensor *x = got->data, *y = want->data;

        for (int64_t i = 0; i < want->shape.dim[0]; i++)
            if (!same(&x[i], &y[i], any, why, size))
                return false;
    }
    if (got->kind != VALUE_TENSOR)
        return true;
    if ((got->type != want->type && !(got->type == TENSOR_BF16 && want->type == TENSOR_U16)) ||
        !shape_equal(&got->shape, &want->shape)) {
        shape_text(&got->shape, a, sizeof(a));
        shape_text(&want->shape, b, sizeof(b));
        snprintf(why, size, "%s %s instead of %s %s", tensor_type_name(got->type), a,
                 tensor_type_name(want->type), b);
        return false;
    }
    ref.type = got->type;
    for (int64_t i = 0; i < ref.count && !any; i++) {
        double g, w;
        bool ok;

        if (got->type == TENSOR_STRING) {
            const struct tensor_string *x = (const struct tensor_string *)got->data + i,
                                       *y = (const struct tensor_string *)want->data + i;

            if (x->len == y->len && (!x->len || memcmp(x->s, y->s, x->len) == 0))
                continue;
            snprintf(why, size, "element %lld is '%.60s' instead of '%.60s'", (long long)i,
                     x->len ? x->s : "", y->len ? y->s : "");
            return false;
        }
        g = tensor_float(&t, i);
        w = tensor_float(&ref, i);
        ok = tensor_type_float(got->type) ? close_enough(g, w, got->type)
                                          : tensor_int(&t, i) == tensor_int(&ref, i);
        if (!ok) {
            snprintf(why, size, "element %lld is %.9g instead of %.9g", (long long)i, g, w);
            return false;
        }
    }
    return true;
}

static bool fits(const struct shape *decl, const struct shape *s)
{
    if (decl->rank >= 0 && decl->rank != s->rank)
        return false;
    for (int32_t i = 0; i < decl->rank; i++)
        if (decl->dim[i] >= 0 && decl->dim[i] != s->dim[i])
            return false;
    return true;
}

static int run_set(struct engine *e, const char *dir, char *why, size_t size)
{
    static struct case_value in[VALUES_MAX], want;
    struct engine_tensor it[VALUES_MAX], ot[VALUES_MAX];
    const struct engine_value *decl, *out_decl;
    size_t nin, nout;
    opm_error err = { 0 };
    char path[512];
    int rc, result = WRONG;

    decl = e->class->inputs(e, &nin);
    out_decl = e->class->outputs(e, &nout);
    if (nin > VALUES_MAX || nout > VALUES_MAX) {
        snprintf(why, size, "too many inputs");
        return UNSUPPORTED;
    }
    for (size_t i = 0; i < nin; i++) {
        snprintf(path, sizeof(path), "%s/input_%zu.pb", dir, i);
        if (value_load(&in[i], path, decl[i].kind, &err) <= 0) {
            snprintf(why, size, "input %zu cannot be read: %s", i, err.msg);
            result = UNSUPPORTED;
            goto out;
        }
        it[i] = in[i].t;
        if (it[i].kind == VALUE_TENSOR && !fits(&decl[i].shape, &it[i].shape)) {
            /* as some of Debian's do */
            snprintf(why, size, "input %zu is not what the model declares", i);
            result = UNSUPPORTED;
            goto out;
        }
        if (decl[i].type == TENSOR_BF16 && it[i].type == TENSOR_U16) /* as old test data has it */
            it[i].type = TENSOR_BF16;
    }
    for (int round = 0; round < 2; round++) { /* the second time, everything is prepared */
        rc = e->class->run(e, it, nin, ot, nout, &err);
        if (rc) {
            snprintf(why, size, "%s", err.msg);
            result = rc == OPM_EUNSUPPORTED ? UNSUPPORTED : WRONG;
            goto out;
        }
        for (size_t i = 0; i < nout; i++) {
            snprintf(path, sizeof(path), "%s/output_%zu.pb", dir, i);
            rc = value_load(&want, path, out_decl[i].kind, &err);
            if (rc < 0) {
                snprintf(why, size, "output %zu cannot be read: %s", i, err.msg);
                result = UNSUPPORTED;
                goto out;
            }
            if (rc && !same(&ot[i], &want.t, is_random(dir), why, size))
                goto out;
            value_free(&want);
        }
    }
    result = PASS;
out:
    value_free(&want);
    for (size_t i = 0; i < nin; i++)
        value_free(&in[i]);
    return result;
}

static enum result run_case(const char *dir, char *why, size_t size)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct model *m = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };
    char path[400];
    enum result result = UNSUPPORTED;
    int sets = 0;

    opts.threads = 2;
    if (strstr(dir, "/test_adam_multiple")) { /* of ONNX 1.12 */
        snprintf(why, size, "its results were made with epsilon 0.01, which the model lacks");
        return UNSUPPORTED;
    }
    snprintf(path, sizeof(path), "%s/model.onnx", dir);
    if (model_load(&m, path, &err) < 0 || engine_native.open(&e, m, &opts, &err) < 0) {
        snprintf(why, size, "%s", err.msg);
        result = err.code == OPM_EUNSUPPORTED ? UNSUPPORTED : WRONG;
        goto out;
    }
    result = PASS;
    for (int set = 0; result == PASS; set++) {
        snprintf(path, sizeof(path), "%s/test_data_set_%d", dir, set);
        if (access(path, R_OK) < 0)
            break;
        result = (enum result)run_set(e, path, why, size);
        sets++;
    }
    if (!sets) {
        snprintf(why, size, "no test data");
        result = UNSUPPORTED;
    }
out:
    if (e)
        e->class->close(e);
    model_free(m);
    return result;
}

static bool verbose;
static bool quiet_unsupported;

/* Names like "node/test_abs", a line each. */
struct names {
    char **name;
    size_t n, cap;
};
static struct names passed, failed;

static void names_add(struct names *l, const char *name)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->name = realloc(l->name, l->cap * sizeof(*l->name));
    }
    l->name[l->n] = l->name ? strdup(name) : NULL;
    if (!l->name[l->n++])
        abort();
}

static bool names_has(const struct names *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0)
            return true;
    return false;
}

static void names_free(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
}

static int write_list(void)
{
    FILE *f = fopen(OPMETER_NODE_LIST, "w");

    for (size_t i = 0; f && i < passed.n; i++)
        fprintf(f, "%s\n", passed.name[i]);
    if (!f || fclose(f)) {
        perror(OPMETER_NODE_LIST);
        return 1;
    }
    printf("%zu cases are in %s\n", passed.n, OPMETER_NODE_LIST);
    return 0;
}

/* Which cases of the list do not pass? Those that the installed test data lacks say nothing, unless
 * it lacks all. */
static int compare_list(void)
{
    FILE *f = fopen(OPMETER_NODE_LIST, "r");
    struct names list = { 0 };
    char line[300];
    size_t seen = 0;
    int lost = 0;

    if (!f) {
        perror(OPMETER_NODE_LIST);
        return 1;
    }
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        names_add(&list, line);
    }
    fclose(f);
    for (size_t i = 0; i < list.n; i++) {
        seen += names_has(&passed, list.name[i]);
        if (names_has(&failed, list.name[i])) {
            printf("%s no longer passes\n", list.name[i]);
            lost++;
        }
    }
    for (size_t i = 0; i < passed.n; i++)
        if (!names_has(&list, passed.name[i]))
            printf("%s passes now: node_cases --update adds it to the list\n", passed.name[i]);
    if (!seen)
        printf("no case of %s was seen to pass\n", OPMETER_NODE_LIST);
    names_free(&list);
    return lost > 0 || !seen;
}

static enum result report(const char *dir)
{
    static const char *const text[] = { "pass", "unsupported", "WRONG" };
    char why[600] = "";
    enum result r = run_case(dir, why, sizeof(why));

    if (verbose || r == WRONG || (r == UNSUPPORTED && !quiet_unsupported))
        printf("%-11s %s %s\n", text[r], strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir, why);
    return r;
}

static void run_folder(const char *folder, int count[NRESULT])
{
    const char *base = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort);

    memset(count, 0, NRESULT * sizeof(*count));
    for (int i = 0; i < n; i++) {
        char dir[300];

        snprintf(dir, sizeof(dir), "%s/%.200s", folder, list[i]->d_name);
        if (list[i]->d_name[0] != '.') {
            enum result r = report(dir);
            char name[300];

            count[r]++;
            snprintf(name, sizeof(name), "%.40s/%.200s", base, list[i]->d_name);
            names_add(r == PASS ? &passed : &failed, name);
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    printf("%s: %d pass, %d unsupported, %d wrong\n", folder, count[PASS], count[UNSUPPORTED],
           count[WRONG]);
}

int main(int argc, char **argv)
{
    static const char *const folder[] = { "node", "simple", "pytorch-operator",
                                          "pytorch-converted" };
    int wrong = 0, count[NRESULT], rc;
    bool update = argc == 2 && strcmp(argv[1], "--update") == 0;
    struct stat st;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "-v") == 0) {
        verbose = true;
        argc--;
        argv++;
    }
    for (int i = 1; i < argc && !update; i++) {
        char path[400];

        snprintf(path, sizeof(path), "%s/model.onnx", argv[i]);
        if (access(path, R_OK) == 0)
            wrong += report(argv[i]) == WRONG;
        else {
            run_folder(argv[i], count);
            wrong += count[WRONG];
        }
    }
    if (argc > 1 && !update)
        return wrong > 0;
    if (stat(ROOT, &st) < 0) {
        printf("%s is not there: install libonnx-testdata\n", ROOT);
        return 77;
    }
    for (size_t i = 0; i < ARRAY_SIZE(folder); i++) {
        char path[200];

        snprintf(path, sizeof(path), ROOT "/%s", folder[i]);
        run_folder(path, count);
        wrong += count[WRONG];
    }
    rc = update ? write_list() : compare_list();
    names_free(&passed);
    names_free(&failed);
    return wrong > 0 || rc;
}
