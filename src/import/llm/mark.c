/* mark.c -- see mark.h. */
#include "import/llm/mark.h"

#include <string.h>
#include <strings.h>

/* A number of at most 15 digits; false: none is there. */
static bool take_number(const char **at, int64_t *out)
{
    int64_t n = 0;
    size_t digits = strspn(*at, "0123456789");

    if (!digits || digits > 15)
        return false;
    for (size_t i = 0; i < digits; i++)
        n = n * 10 + (*at)[i] - '0';
    *at += digits;
    *out = n;
    return true;
}

static bool take_word(const char **at, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

/* "3(sq3sk90sqsq..)" or "3(3)": how many, their tokens, and what they attend to if it is said. */
static bool take_group(const char **at, int64_t *count, int64_t *tokens, int64_t *context)
{
    const char *end;

    if (!take_number(at, count) || !take_word(at, "("))
        return false;
    end = strchr(*at, ')');
    take_word(at, "sq");
    if (!end || !take_number(at, tokens))
        return false;
    if (take_word(at, "sk"))
        take_number(at, context);
    *at = end + 1;
    return true;
}

/* Where a request may have tokens that are only guessed, what comes out is not known. */
static int64_t made(int64_t requests, int64_t tokens)
{
    return requests == tokens ? requests : -1;
}

static int64_t sum(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : a + b;
}

/* "new_1_cached_3": who is new begins to read, who is not makes tokens or goes on reading. */
static bool read_old_vllm(const char *at, struct llm_mark *m)
{
    if (!take_word(&at, "execute_new_") || !take_number(&at, &m->prefills) ||
        !take_word(&at, "_cached_") || !take_number(&at, &m->decodes))
        return false;
    return *at == '\0';
}

static bool read_vllm(const char *at, struct llm_mark *m)
{
    int64_t all, tokens[2], contexts[2] = { -1, -1 };

    if (!take_word(&at, "execute_"))
        return false;
    if (take_number(&at, &all) && !take_word(&at, "_"))
        return false;
    if (!take_word(&at, "context_") || !take_group(&at, &m->prefills, &tokens[0], &contexts[0]) ||
        !take_word(&at, "_generation_") || !take_group(&at, &m->decodes, &tokens[1], &contexts[1]))
        return false;
    m->tokens_in = tokens[0] + tokens[1];
    if (!m->prefills)
        m->tokens_out = made(m->decodes, tokens[1]);
    m->context = sum(contexts[0], contexts[1]);
    return true;
}

static bool read_tensorrt(const char *at, struct llm_mark *m)
{
    int64_t n, prompts = -1;

    if (!take_word(&at, "[Executor] _forward_step"))
        return false;
    if (take_word(&at, " "))
        take_number(&at, &m->num);
    if (!take_word(&at, ": "))
        return false;
    m->prefills = 0;
    m->decodes = 0;
    while (take_number(&at, &n)) {
        if (take_word(&at, " ctx reqs"))
            m->prefills = n;
        else if (take_word(&at, " ctx tokens"))
            prompts = n;
        else if (take_word(&at, " gen reqs"))
            m->decodes = n;
        else
            return false;
        take_word(&at, ", ");
    }
    if (m->prefills == 0)
        prompts = 0;
    m->tokens_in = sum(prompts, m->decodes); /* unless it drafts, which it does not say */
    if (m->prefills == 0)
        m->tokens_out = m->decodes;
    return true;
}

/* What stands in brackets. */
struct facts {
    int64_t requests, prefills, decodes;
    int64_t tokens, context;
    int64_t prompt_tokens, prompt_context, decode_tokens, decode_context;
    int64_t drafts; /* tokens that are guessed for each request */
};

static const struct facts no_facts = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };

/* "7803" or "[7803, 6918]", whose sum it is; -1 where more of them are left out. */
static void take_lengths(const char **at, int64_t *out)
{
    int64_t n, all = 0;

    if (**at != '[') {
        take_number(at, out);
        return;
    }
    ++*at;
    while (all < INT64_MAX / 4 && take_number(at, &n)) {
        all += n;
        *at += strspn(*at, ", ");
    }
    if (take_word(at, "]") && !take_word(at, "..."))
        *out = all;
}

/* "bs=2 tokens=512 context=512", in any order and among others. *at stands behind the bracket that
 * opens, afterwards behind the one that closes. False: none does. */
static bool take_facts(const char **at, struct facts *f)
{
    const struct {
        const char *word;
        int64_t *to;
    } words[] = {
        { "bs=", &f->requests },         { "batch=", &f->requests },
        { "c=", &f->prefills },          { "p=", &f->prefills },
        { "g=", &f->decodes },           { "d=", &f->decodes },
        { "toks=", &f->tokens },         { "tokens=", &f->tokens },
        { "tok=", &f->tokens },          { "new_tokens=", &f->tokens },
        { "ctx=", &f->context },         { "context=", &f->context },
        { "sk=", &f->context },          { "c_sq=", &f->prompt_tokens },
        { "c_sk=", &f->prompt_context }, { "g_sq=", &f->decode_tokens },
        { "g_sk=", &f->decode_context }, { "spec=", &f->drafts },
    };

    while (**at) {
        size_t i = 0;

        *at += strspn(*at, " ,;");
        if (take_word(at, "]") || take_word(at, ")"))
            return true;
        while (i < ARRAY_SIZE(words) && !take_word(at, words[i].word))
            i++;
        if (i < ARRAY_SIZE(words))
            take_lengths(at, words[i].to);
        *at += strcspn(*at, " ,;])");
    }
    return false;
}

static int64_t known_or(int64_t v, int64_t other)
{
    return v >= 0 ? v : other;
}

static void put_decode(struct llm_mark *m, const struct facts *f)
{
    m->batch = f->requests;
    m->prefills = known_or(f->prefills, 0);
    m->decodes = f->decodes >= 0 || m->prefills ? f->decodes : f->requests;
    m->tokens_in = known_or(f->decode_tokens, known_or(f->tokens, f->requests));
    if (!m->prefills && f->drafts <= 0)
        m->tokens_out = made(m->decodes, m->tokens_in);
    m->context = known_or(f->decode_context, f->context);
}

static void put_prefill(struct llm_mark *m, const struct facts *f)
{
    m->batch = m->prefills = f->requests;
    m->decodes = 0;
    m->tokens_in = known_or(f->prompt_tokens, f->tokens);
    m->context = known_or(f->prompt_context, f->context);
}

static void put_mixed(struct llm_mark *m, const struct facts *f)
{
    m->batch = f->requests;
    m->prefills = f->prefills;
    m->decodes = f->decodes;
    m->tokens_in = known_or(sum(f->prompt_tokens, f->decode_tokens), f->tokens);
    m->context = known_or(sum(f->prompt_context, f->decode_context), f->context);
    if (m->prefills == 0)
        m->tokens_out = made(m->decodes, m->tokens_in);
}

/* A model that drafts reads and guesses tokens, another one verifies them: how many come out then
 * is not said. */
static void put_drafts(struct llm_mark *m, const struct facts *f)
{
    m->batch = m->decodes = f->requests;
    m->prefills = 0;
    m->tokens_in = known_or(f->prompt_tokens, known_or(f->decode_tokens, f->tokens));
    m->context = known_or(f->prompt_context, f->decode_context);
}

static bool read_sglang(const char *at, struct llm_mark *m)
{
    static const struct {
        const char *word;
        void (*put)(struct llm_mark *m, const struct facts *f);
    } modes[] = {
        { "DECODE", put_decode },  { "TARGET_VERIFY", put_drafts },  { "DRAFT_EXTEND", put_drafts },
        { "EXTEND", put_prefill }, { "SPLIT_PREFILL", put_prefill }, { "PREFILL", put_prefill },
        { "MIXED", put_mixed },
    };
    struct facts f = no_facts;
    size_t mode = 0;

    if (!take_word(&at, "step["))
        return false;
    at += strspn(at, " ");
    while (mode < ARRAY_SIZE(modes) && !take_word(&at, modes[mode].word))
        mode++;
    if (mode == ARRAY_SIZE(modes) || !take_facts(&at, &f))
        return false;
    modes[mode].put(m, &f);
    return true;
}

/* A word of its own, maybe with a number or facts in brackets behind it. */
static bool read_loop(const char *at, struct llm_mark *m)
{
    struct facts f = no_facts;
    bool decode;

    if (strncasecmp(at, "eager_decode", 12) == 0)
        at += 6;
    decode = strncasecmp(at, "decode", 6) == 0;
    if (!decode && strncasecmp(at, "prefill", 7) != 0)
        return false;
    at += decode ? 6 : 7;
    at += strspn(at, " #:_-");
    take_number(&at, &m->num);
    at += strspn(at, " :");
    if (*at == '[' || *at == '(') {
        at++;
        if (!take_facts(&at, &f))
            return false;
    }
    if (*at)
        return false;
    m->plain = f.requests < 0 && f.tokens < 0 && f.context < 0;
    if (decode)
        put_decode(m, &f);
    else
        put_prefill(m, &f);
    return true;
}

bool llm_mark_read(const char *name, struct llm_mark *out)
{
    static const struct llm_mark unknown = { -1, -1, -1, -1, -1, -1, -1, false };
    static bool (*const readers[])(const char *, struct llm_mark *) = { read_vllm, read_old_vllm,
                                                                        read_tensorrt, read_sglang,
                                                                        read_loop };

    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        *out = unknown;
        if (!readers[i](name, out))
            continue;
        if (out->batch < 0)
            out->batch = sum(out->prefills, out->decodes);
        return true;
    }
    return false;
}
