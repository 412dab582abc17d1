/* test_native_transformer.c -- what transformers and recurrent networks are made of: attention,
 * Gelu and products that fuse, LSTM; against plain sums in double. */
#include "engine/native/op.h"
#include "run_rig.h"

static const struct engine_options defaults = ENGINE_OPTIONS_INIT;

/* Operators of a model, as the engine runs it: "Attention Reshape". */
static void assert_ops(struct make *m, int opset, const char *want)
{
    struct model *model = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };
    struct buf got = { 0 };
    const struct plan *p;

    if (make_model(m, opset, &model, &err) || engine_native.open(&e, model, &defaults, &err))
        fail_msg("%s", err.msg);
    p = ((struct native *)e)->plan;
    for (uint32_t i = 0; i < p->nop; i++)
        buf_addf(&got, "%s%s", i ? " " : "",
                 p->op[i].type ? p->op[i].type : p->op[i].node->op_type);
    assert_string_equal(buf_str(&got), want);
    buf_release(&got);
    e->class->close(e);
    model_free(model);
    m->file.len = 0; /* the model is made again */
}

enum mask_kind { MASK_NONE, MASK_KEYS, MASK_CAUSAL, MASK_WHERE, MASK_WHERE_KEYS, MASK_N };
enum layout { PLAIN, SPLIT_HEADS, STACKED, LAYOUT_N };

struct attention {
    int64_t b, h, sq, sk, d, dv;
    enum mask_kind mask;
    enum layout layout;
};

static bool masked(const struct attention *a, const uint8_t *drop, int64_t b, int64_t i, int64_t k)
{
    switch (a->mask) {
    case MASK_CAUSAL:
    case MASK_WHERE:
        return k > i;
    case MASK_KEYS:
    case MASK_WHERE_KEYS:
        return drop[b * a->sk + k];
    default:
        return false;
    }
}

/* Element (b, h, s, c) of operand `which` (0 Q, 1 K, 2 V) as it is laid out. */
static int64_t place(const struct attention *a, int which, int64_t b, int64_t h, int64_t s,
                     int64_t c)
{
    int64_t n = which ? a->sk : a->sq, w = which == 2 ? a->dv : a->d;

    if (a->layout == PLAIN)
        return ((b * a->h + h) * n + s) * w + c;
    if (a->layout == SPLIT_HEADS)
        return ((b * n + s) * a->h + h) * w + c;
    return (((b * n + s) * 3 + which) * a->h + h) * w + c; /* one tensor for all three */
}

static void expect(const struct attention *a, float *const *x, const uint8_t *drop, double *want)
{
    double *p = malloc((size_t)a->sk * sizeof(*p));

    for (int64_t q = 0; q < a->b * a->h * a->sq; q++) {
        int64_t i = q % a->sq, h = q / a->sq % a->h, b = q / a->sq / a->h;
        double max = -INFINITY, sum = 0;

        for (int64_t k = 0; k < a->sk; k++) {
            p[k] = 0;
            for (int64_t c = 0; c < a->d; c++)
                p[k] +=
                    (double)x[0][place(a, 0, b, h, i, c)] * (double)x[1][place(a, 1, b, h, k, c)];
            p[k] = masked(a, drop, b, i, k) ? -1e9 : p[k] / 2;
            max = fmax(max, p[k]);
        }
        for (int64_t k = 0; k < a->sk; k++)
            sum += p[k] = exp(p[k] - max);
        for (int64_t c = 0; c < a->dv; c++) {
            double y = 0;

            for (int64_t k = 0; k < a->sk; k++)
                y += p[k] / sum * (double)x[2][place(a, 2, b, h, k, c)];
            want[((b * a->sq + i) * a->h + h) * a->dv + c] = y;
        }
    }
    free(p);
}

static void make_operands(struct make *mk, const struct attention *a)
{
    static const char *const name[] = { "q", "k", "v" };
    static const int64_t index[] = { 0, 1, 2 };

    if (a->layout == STACKED) {
        int64_t dim[] = { a->b, a->sq, 3, a->h, a->d };

        make_value(mk, false, "q", TENSOR_F32, dim, 5);
        make_node(mk, "Transpose", "q", "t", "perm=2,0,3,1,4");
        for (int i = 0; i < 3; i++) {
            char in[20], out[20];

            snprintf(in, sizeof(in), "t,i%d", i);
            snprintf(out, sizeof(out), i == 1 ? "k1" : "%sh", name[i]);
            make_weight(mk, in + 2, TENSOR_I64, NULL, 0, &index[i], 8);
            make_node(mk, "Gather", in, out, "axis=0");
        }
        make_node(mk, "Transpose", "k1", "kh", "perm=0,1,3,2");
        return;
    }
    for (int i = 0; i < 3; i++) {
        int64_t n = i ? a->sk : a->sq, w = i == 2 ? a->dv : a->d;
        int64_t plain[] = { a->b, a->h, n, w }, split[] = { a->b, n, a->h, w };
        char out[20];

        snprintf(out, sizeof(out), "%sh", name[i]);
        make_value(mk, false, name[i], TENSOR_F32, a->layout == PLAIN ? plain : split, 4);
        if (a->layout == SPLIT_HEADS)
            make_node(mk, "Transpose", name[i], out, i == 1 ? "perm=0,2,3,1" : "perm=0,2,1,3");
    }
    if (a->layout == PLAIN)
        make_node(mk, "Transpose", "k", "kh", "perm=0,1,3,2");
}

static void one_attention(const struct attention *a)
{
    int64_t nq = a->b * a->h * a->sq * a->d, nk = a->b * a->h * a->sk * a->d,
            nv = a->b * a->h * a->sk * a->dv, nout = a->b * a->h * a->sq * a->dv, cells;
    bool one = a->layout == STACKED, dynamic = a->mask == MASK_KEYS || a->mask == MASK_WHERE_KEYS;
    float *x[3] = { random_floats(one ? 3 * nq : nq), NULL, NULL }, two = 2, low = -1e9f, *mask;
    uint8_t *drop = rig_alloc((size_t)(a->b * a->sk) + 1), *keep;
    double *want = malloc((size_t)nout * sizeof(double) + 1);
    struct rig_want w = { want, 1e-4 };
    struct engine_tensor in[4];
    struct make mk = { 0 };
    size_t nin = one ? 1 : 3;
    int64_t key_dim[] = { a->b, 1, 1, a->sk }, square[] = { 1, 1, a->sq, a->sk };

    x[1] = one ? x[0] : random_floats(nk);
    x[2] = one ? x[0] : random_floats(nv);
    for (int64_t i = 0; i < a->b * a->sk; i++)
        drop[i] = i % a->sk ? rnd(3) == 0 : 0;
    expect(a, x, drop, want);
    cells = dynamic ? a->b * a->sk : a->sq * a->sk;
    mask = rig_alloc((size_t)cells * 4);
    keep = rig_alloc((size_t)cells);
    for (int64_t i = 0; i < cells; i++) {
        bool off = dynamic ? drop[i] : i % a->sk > i / a->sk;

        mask[i] = off ? -1e9f : 0;
        keep[i] = !off;
    }
    make_operands(&mk, a);
    make_node(&mk, "MatMul", a->layout == PLAIN ? "q,kh" : "qh,kh", "s0", "");
    make_node(&mk, "Div", "s0,two", "s1", "");
    if (a->mask == MASK_KEYS || a->mask == MASK_CAUSAL)
        make_node(&mk, "Add", a->mask == MASK_KEYS ? "mask,s1" : "s1,mask", "s2", "");
    else if (a->mask == MASK_WHERE || a->mask == MASK_WHERE_KEYS)
        make_node(&mk, "Where", "mask,s1,low", "s2", "");
    make_node(&mk, "Softmax", a->mask ? "s2" : "s1", "p", "axis=-1");
    make_node(&mk, "MatMul", a->layout == PLAIN ? "p,v" : "p,vh", "o", "");
    make_node(&mk, "Transpose", "o", "y", "perm=0,2,1,3");
    make_weight(&mk, "two", TENSOR_F32, NULL, 0, &two, 4);
    make_weight(&mk, "low", TENSOR_F32, NULL, 0, &low, 4);
    if (one)
        in[0] = rig_tensor(TENSOR_F32, x[0], (int64_t[]){ a->b, a->sq, 3, a->h, a->d }, 5);
    for (int i = 0; i < 3 && !one; i++) {
        int64_t n = i ? a->sk : a->sq, c = i == 2 ? a->dv : a->d;
        bool plain = a->layout == PLAIN;

        in[i] = rig_tensor(TENSOR_F32, x[i],
                           (int64_t[]){ a->b, plain ? a->h : n, plain ? n : a->h, c }, 4);
    }
    if (a->mask == MASK_CAUSAL)
        make_weight(&mk, "mask", TENSOR_F32, square, 4, mask, (size_t)cells * 4);
    else if (a->mask == MASK_WHERE)
        make_weight(&mk, "mask", TENSOR_BOOL, square, 4, keep, (size_t)cells);
    else if (dynamic) {
        bool f = a->mask == MASK_KEYS;

        make_value(&mk, false, "mask", f ? TENSOR_F32 : TENSOR_BOOL, key_dim, 4);
        in[nin++] =
            rig_tensor(f ? TENSOR_F32 : TENSOR_BOOL, f ? (void *)mask : (void *)keep, key_dim, 4);
    }
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    assert_ops(&mk, 13, "Attention");
    rig_run(&mk, 13, &defaults, in, nin, rig_near, &w);
    make_free(&mk);
    for (int i = 0; i < (one ? 1 : 3); i++)
        free(x[i]);
    free(drop);
    free(mask);
    free(keep);
    free(want);
}

static void attention(void **state)
{
    (void)state;
    for (int mask = 0; mask < MASK_N; mask++)
        for (int layout = 0; layout < LAYOUT_N; layout++)
            for (int i = 0; i < 3; i++) {
                int64_t n = 1 + rnd(70), d = 1 + rnd(40);
                struct attention a = { 1 + rnd(2),           1 + rnd(3),         n, n, d, d,
                                       (enum mask_kind)mask, (enum layout)layout };

                if (layout != STACKED) {
                    a.dv = 1 + rnd(40);
                    a.sk = mask == MASK_CAUSAL || mask == MASK_WHERE ? n : 1 + rnd(100);
                }
                one_attention(&a);
            }
}

/* Scores that somebody else reads, too, must not vanish. */
static void attention_that_shows(void **state)
{
    struct make mk = { 0 };
    int64_t dim[] = { 1, 2, 4, 3 }, turned[] = { 1, 2, 3, 4 };

    (void)state;
    make_node(&mk, "MatMul", "q,k", "s", "");
    make_node(&mk, "Softmax", "s", "p", "axis=-1");
    make_node(&mk, "MatMul", "p,v", "y", "");
    make_value(&mk, false, "q", TENSOR_F32, dim, 4);
    make_value(&mk, false, "k", TENSOR_F32, turned, 4);
    make_value(&mk, false, "v", TENSOR_F32, dim, 4);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    make_value(&mk, true, "p", TENSOR_F32, NULL, -1);
    assert_ops(&mk, 13, "MatMul Softmax MatMul");
    make_free(&mk);
}

/* MatMul by a transposed constant, bias, the tanh form of Gelu: one operator. */
static void gelu_by_tanh(void **state)
{
    const float c[] = { 0.5f, 1, 3, 0.044715f, 0.79788456f };
    const char *const name[] = { "half", "one", "three", "small", "root" };
    int64_t m = 30, k = 19, n = 45;
    float *x = random_floats(m * k), *w = random_floats(n * k), *b = random_floats(n);
    double *want = malloc((size_t)(m * n) * sizeof(double));
    struct engine_tensor in = rig_tensor(TENSOR_F32, x, (int64_t[]){ m, k }, 2);
    struct rig_want judge = { want, 1e-5 };

    (void)state;
    for (int64_t i = 0; i < m * n; i++) {
        double s = (double)b[i % n];

        for (int64_t q = 0; q < k; q++)
            s += (double)x[i / n * k + q] * (double)w[i % n * k + q];
        want[i] = 0.5 * s * (1 + tanh(0.7978845608028654 * (s + 0.044715 * s * s * s)));
    }
    for (int form = 0; form < 4; form++) {
        struct make mk = { 0 };

        make_node(&mk, "Transpose", "w", "wt", "perm=1,0");
        make_node(&mk, "MatMul", "x,wt", "p", "");
        make_node(&mk, "Add", "p,b", "g", "");
        if (form % 2)
            make_node(&mk, "Pow", "g,three", "cube", "");
        else {
            make_node(&mk, "Mul", "g,g", "square", "");
            make_node(&mk, "Mul", "square,g", "cube", "");
        }
        make_node(&mk, "Mul", "cube,small", "c1", "");
        make_node(&mk, "Add", form % 2 ? "g,c1" : "c1,g", "c2", "");
        make_node(&mk, "Mul", "root,c2", "c3", "");
        make_node(&mk, "Tanh", "c3", "t", "");
        make_node(&mk, "Add", "t,one", "a", "");
        if (form / 2) {
            make_node(&mk, "Mul", "g,half", "h", "");
            make_node(&mk, "Mul", "h,a", "y", "");
        } else {
            make_node(&mk, "Mul", "g,a", "h", "");
            make_node(&mk, "Mul", "h,half", "y", "");
        }
        for (int i = 0; i < 5; i++)
            make_weight(&mk, name[i], TENSOR_F32, NULL, 0, &c[i], 4);
        make_weight(&mk, "w", TENSOR_F32, (int64_t[]){ n, k }, 2, w, (size_t)(n * k) * 4);
        make_weight(&mk, "b", TENSOR_F32, &n, 1, b, (size_t)n * 4);
        make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ m, k }, 2);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        assert_ops(&mk, 13, "MatMul");
        rig_run(&mk, 13, &defaults, &in, 1, rig_near, &judge);
        make_free(&mk);
    }
    free(x);
    free(w);
    free(b);
    free(want);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Last state of an LSTM without frills. */
static void expect_lstm(const float *x, const float *w, const float *r, const float *bias,
                        int64_t t, int64_t b, int64_t i, int64_t h, double *y)
{
    double *c = calloc((size_t)(b * h), sizeof(*c)), *g = malloc((size_t)(4 * h) * sizeof(*g)),
           *next = malloc((size_t)h * sizeof(*next));

    for (int64_t n = 0; n < b * h; n++)
        y[n] = 0;
    for (int64_t step = 0; step < t; step++)
        for (int64_t n = 0; n < b; n++) {
            const float *in = x + ((step)*b + n) * i;

            for (int64_t q = 0; q < 4 * h; q++) {
                g[q] = (double)bias[q] + (double)bias[4 * h + q];
                for (int64_t k = 0; k < i; k++)
                    g[q] += (double)in[k] * (double)w[q * i + k];
                for (int64_t k = 0; k < h; k++)
                    g[q] += y[n * h + k] * (double)r[q * h + k];
            }
            for (int64_t k = 0; k < h; k++) {
                c[n * h + k] =
                    sigmoid(g[2 * h + k]) * c[n * h + k] + sigmoid(g[k]) * tanh(g[3 * h + k]);
                next[k] = sigmoid(g[h + k]) * tanh(c[n * h + k]);
            }
            memcpy(y + n * h, next, (size_t)h * sizeof(*y));
        }
    free(c);
    free(g);
    free(next);
}

static void lstm(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        int64_t t = 1 + rnd(6), b = 1 + rnd(5), i = 1 + rnd(40), h = 1 + rnd(70);
        float *x = random_floats(t * b * i), *w = random_floats(4 * h * i),
              *r = random_floats(4 * h * h), *bias = random_floats(8 * h);
        double *want = malloc((size_t)(b * h) * sizeof(double));
        struct engine_tensor in = rig_tensor(TENSOR_F32, x, (int64_t[]){ t, b, i }, 3);
        struct rig_want judge = { want, 1e-5 };
        struct make mk = { 0 };
        char attrs[40];

        expect_lstm(x, w, r, bias, t, b, i, h, want);
        snprintf(attrs, sizeof(attrs), "hidden_size=%lld", (long long)h);
        make_node(&mk, "LSTM", "x,w,r,b", ",y", attrs);
        make_weight(&mk, "w", TENSOR_F32, (int64_t[]){ 1, 4 * h, i }, 3, w,
                    (size_t)(4 * h * i) * 4);
        make_weight(&mk, "r", TENSOR_F32, (int64_t[]){ 1, 4 * h, h }, 3, r,
                    (size_t)(4 * h * h) * 4);
        make_weight(&mk, "b", TENSOR_F32, (int64_t[]){ 1, 8 * h }, 2, bias, (size_t)(8 * h) * 4);
        make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ t, b, i }, 3);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        rig_run(&mk, 14, &defaults, &in, 1, rig_near, &judge);
        make_free(&mk);
        free(x);
        free(w);
        free(r);
        free(bias);
        free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),
        cmocka_unit_test(attention_that_shows),
        cmocka_unit_test(gelu_by_tanh),
        cmocka_unit_test(lstm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
