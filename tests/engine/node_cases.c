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

enum result { PASS, UNSUPPORTED, WRONG, NRESULT };

/* A TensorProto file, wrapped into a model whose only initializer it is. */
struct case_tensor {
    struct io_map file;
    struct buf bytes;
    struct model *model;
    const struct tensor *t;
};

static void tensor_free(struct case_tensor *t)
{
    model_free(t->model);
    buf_release(&t->bytes);
    io_map_release(&t->file);
    memset(t, 0, sizeof(*t));
}

/* 1: read; 0: there is no such file; -1: it is no tensor. */
static int tensor_load(struct case_tensor *out, const char *path, opm_error *err)
{
    struct rd r;
    struct pb_field f;
    size_t graph, opset, info;

    memset(out, 0, sizeof(*out));
    if (access(path, R_OK) < 0)
        return 0;
    if (io_map(&out->file, path, 0, err) < 0)
        return -1;
    pb_varint(&out->bytes, 1, 8); /* ir_version */
    opset = pb_begin(&out->bytes, 8);
    pb_varint(&out->bytes, 2, 13);
    pb_end(&out->bytes, opset);
    graph = pb_begin(&out->bytes, 7);
    pb_str(&out->bytes, 2, "g");
    info = pb_begin(&out->bytes, 5);
    r = rd_of(out->file.data, out->file.len);
    while (pb_next(&r, &f)) /* all but the name */
        if (f.number == 8)
            continue;
        else if (f.wire == PB_LEN)
            pb_bytes(&out->bytes, f.number, f.p, f.len);
        else if (f.wire == PB_VARINT)
            pb_varint(&out->bytes, f.number, f.value);
        else if (f.wire == PB_I64)
            pb_fixed64(&out->bytes, f.number, f.value);
        else
            return -1;
    pb_str(&out->bytes, 8, "t");
    pb_end(&out->bytes, info);
    info = pb_begin(&out->bytes, 12);
    pb_str(&out->bytes, 1, "t");
    pb_end(&out->bytes, info);
    pb_end(&out->bytes, graph);
    if (model_parse(&out->model, out->bytes.data, out->bytes.len, path, NULL, err) < 0)
        return -1;
    for (uint32_t i = 0; i < out->model->graph->nvalue; i++)
        if (out->model->graph->value[i].data)
            out->t = out->model->graph->value[i].data;
    return out->t ? 1 : -1;
}

static bool close_enough(double got, double want, enum tensor_type type)
{
    double rtol = type == TENSOR_F16 || type == TENSOR_BF16 ? 1e-2 : 1e-3;

    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    return fabs(got - want) <= 1e-5 + rtol * fabs(want);
}

static bool same(const struct engine_tensor *got, const struct tensor *want, char *why, size_t size)
{
    struct tensor t = { "",        got->type,  got->shape, shape_count(&got->shape),
                        got->data, got->bytes, false };
    struct tensor ref = *want;
    char a[80], b[80];

    ref.type = got->type;
    if ((got->type != want->type && !(got->type == TENSOR_BF16 && want->type == TENSOR_U16)) ||
        !shape_equal(&got->shape, &want->shape)) {
        shape_text(&got->shape, a, sizeof(a));
        shape_text(&want->shape, b, sizeof(b));
        snprintf(why, size, "%s %s instead of %s %s", tensor_type_name(got->type), a,
                 tensor_type_name(want->type), b);
        return false;
    }
    for (int64_t i = 0; i < want->count; i++) {
        double g, w;

        g = tensor_float(&t, i);
        w = tensor_float(&ref, i);
        bool ok = tensor_type_float(got->type) ? close_enough(g, w, got->type)
                                               : tensor_int(&t, i) == tensor_int(want, i);

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
    struct case_tensor in[VALUES_MAX] = { 0 }, want = { 0 };
    struct engine_tensor it[VALUES_MAX], ot[VALUES_MAX];
    const struct engine_value *decl;
    void *copy[VALUES_MAX] = { NULL };
    size_t nin, nout;
    opm_error err = { 0 };
    char path[512];
    int rc, result = WRONG;

    decl = e->class->inputs(e, &nin);
    e->class->outputs(e, &nout);
    if (nin > VALUES_MAX || nout > VALUES_MAX) {
        snprintf(why, size, "too many inputs");
        return UNSUPPORTED;
    }
    for (size_t i = 0; i < nin; i++) {
        snprintf(path, sizeof(path), "%s/input_%zu.pb", dir, i);
        if (tensor_load(&in[i], path, &err) <= 0 || in[i].t->type == TENSOR_STRING) {
            snprintf(why, size, "input %zu is no tensor of numbers: %s", i, err.msg);
            result = UNSUPPORTED;
            goto out;
        }
        if (!fits(&decl[i].shape, &in[i].t->shape)) { /* as some of Debian's do */
            snprintf(why, size, "input %zu is not what the model declares", i);
            result = UNSUPPORTED;
            goto out;
        }
        copy[i] = aligned_alloc(64, (in[i].t->bytes + 64) / 64 * 64);
        if (in[i].t->bytes)
            memcpy(copy[i], in[i].t->data, in[i].t->bytes);
        /* Old test data holds bfloat16 as uint16. */
        it[i] = (struct engine_tensor){ decl[i].type == TENSOR_BF16 ? TENSOR_BF16 : in[i].t->type,
                                        in[i].t->shape, copy[i], in[i].t->bytes };
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
            rc = tensor_load(&want, path, &err);
            if (rc < 0) {
                snprintf(why, size, "output %zu is no tensor: %s", i, err.msg);
                result = UNSUPPORTED;
                goto out;
            }
            if (rc && !same(&ot[i], want.t, why, size))
                goto out;
            tensor_free(&want);
        }
    }
    result = PASS;
out:
    tensor_free(&want);
    for (size_t i = 0; i < nin; i++) {
        tensor_free(&in[i]);
        free(copy[i]);
    }
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
