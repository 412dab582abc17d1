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

static bool read_vllm(const char *at, struct llm_mark *m)
{
    int64_t all, contexts[2] = { -1, -1 };

    if (!take_word(&at, "execute_"))
        return false;
    if (take_number(&at, &all) && !take_word(&at, "_"))
        return false;
    if (!take_word(&at, "context_") ||
        !take_group(&at, &m->prefills, &m->prefill_tokens, &contexts[0]) ||
        !take_word(&at, "_generation_") ||
        !take_group(&at, &m->decodes, &m->decode_tokens, &contexts[1]))
        return false;
    if (contexts[0] >= 0 && contexts[1] >= 0)
        m->context = contexts[0] + contexts[1];
    return true;
}

static bool read_tensorrt(const char *at, struct llm_mark *m)
{
    int64_t n;

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
            m->prefill_tokens = n;
        else if (take_word(&at, " gen reqs"))
            m->decodes = n;
        else
            return false;
        take_word(&at, ", ");
    }
    if (m->prefills == 0)
        m->prefill_tokens = 0;
    m->decode_tokens = m->decodes; /* unless it drafts, which it does not say */
    return true;
}

/* "bs=2 tokens=512 context=512", in any order, up to end. */
static void take_facts(const char *at, const char *end, int64_t *count, int64_t *tokens,
                       int64_t *context)
{
    static const struct {
        const char *word;
        int what;
    } words[] = { { "bs=", 0 },         { "batch=", 0 }, { "toks=", 1 },   { "tokens=", 1 },
                  { "new_tokens=", 1 }, { "ctx=", 2 },   { "context=", 2 } };
    int64_t *to[] = { count, tokens, context };

    while (at < end) {
        size_t i = 0;

        while (i < ARRAY_SIZE(words) && !take_word(&at, words[i].word))
            i++;
        if (i < ARRAY_SIZE(words))
            take_number(&at, to[words[i].what]);
        at += strcspn(at, " ,;])");
        at += strspn(at, " ,;");
        if (*at == ']' || *at == ')')
            return;
    }
}

static void put_decode(struct llm_mark *m, int64_t count, int64_t tokens)
{
    m->prefills = 0;
    m->prefill_tokens = 0;
    m->decodes = count;
    m->decode_tokens = tokens >= 0 ? tokens : count;
}

static void put_prefill(struct llm_mark *m, int64_t count, int64_t tokens)
{
    m->prefills = count;
    m->prefill_tokens = tokens;
    m->decodes = 0;
    m->decode_tokens = 0;
}

static bool read_sglang(const char *at, struct llm_mark *m)
{
    int64_t count = -1, tokens = -1;
    const char *end = strchr(at, ']');
    bool decode;

    if (!end || !take_word(&at, "step["))
        return false;
    decode = take_word(&at, "DECODE") || take_word(&at, "TARGET_VERIFY") ||
             take_word(&at, "DRAFT_EXTEND");
    if (!decode && !take_word(&at, "EXTEND") && !take_word(&at, "PREFILL") &&
        !take_word(&at, "MIXED"))
        return false;
    at += strspn(at, " ");
    take_facts(at, end, &count, &tokens, &m->context);
    if (decode)
        put_decode(m, count, tokens);
    else
        put_prefill(m, count, tokens);
    return true;
}

/* A word of its own, maybe with a number or facts in brackets behind it. */
static bool read_loop(const char *at, struct llm_mark *m)
{
    int64_t count = -1, tokens = -1;
    bool decode = strncasecmp(at, "decode", 6) == 0;

    if (!decode && strncasecmp(at, "prefill", 7) != 0)
        return false;
    at += decode ? 6 : 7;
    at += strspn(at, " #:_-");
    take_number(&at, &m->num);
    at += strspn(at, " :");
    if (*at == '[' || *at == '(') {
        const char *end = strchr(at, *at == '[' ? ']' : ')');

        if (!end)
            return false;
        take_facts(at + 1, end, &count, &tokens, &m->context);
        at = end + 1;
    }
    if (*at)
        return false;
    m->plain = count < 0 && tokens < 0 && m->context < 0;
    if (decode)
        put_decode(m, count, tokens);
    else
        put_prefill(m, count, tokens);
    return true;
}

bool llm_mark_read(const char *name, struct llm_mark *out)
{
    static const struct llm_mark unknown = { -1, -1, -1, -1, -1, -1, false };
    static bool (*const readers[])(const char *, struct llm_mark *) = { read_vllm, read_tensorrt,
                                                                        read_sglang, read_loop };

    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        *out = unknown;
        if (readers[i](name, out))
            return true;
    }
    return false;
}
