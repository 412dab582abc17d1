/* redact.h -- which facts about program and machine a trace does not hold: OPMETER_REDACT.
 *
 * A list, separated by commas, of kinds (command, host, paths; all: each of them) and of patterns
 * of keys of table meta, such as input.*. What is hidden keeps its key; the value is REDACT_TEXT.
 *
 * Header-only, because the recorder uses it inside other people's programs. */
#ifndef BASE_REDACT_H
#define BASE_REDACT_H

#include "base/common.h"
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#define REDACT_TEXT "(redacted)"

/* Kinds, and the keys that are of them. */
#define REDACT_KEYS(KEY)              \
    KEY("command", "program.command") \
    KEY("command", "record.command")  \
    KEY("host", "machine.host")       \
    KEY("paths", "model.path")        \
    KEY("paths", "engine.library")    \
    KEY("paths", "cuda.cupti_library")

/* Whether a word of the list stands for the key; an unknown kind is a pattern that fits nothing. */
static inline bool redact_word(const char *word, const char *key)
{
#define REDACT_KEY(kind, of_kind)                                                           \
    if (strcmp(key, of_kind) == 0 && (strcmp(word, kind) == 0 || strcmp(word, "all") == 0)) \
        return true;
    REDACT_KEYS(REDACT_KEY)
#undef REDACT_KEY
    return fnmatch(word, key, 0) == 0;
}

/* Whether the value of a key is to be hidden. list may be NULL. A list that is too long to be one
 * hides everything: whoever sets it means to hide something. */
static inline bool redact_hides(const char *list, const char *key)
{
    const char *digits = strncmp(key, "file", 4) == 0 ? key + 4 : key;
    char word[256];

    while (digits != key && isdigit((unsigned char)*digits))
        digits++;
    if (digits > key + 4 && *digits == '.') /* of a trace that is merged with others */
        key = digits + 1;
    while (list && *list) {
        size_t len = strcspn(list, ","), n = len;

        while (n && list[n - 1] == ' ')
            n--;
        if (n >= sizeof(word))
            return true;
        memcpy(word, list, n);
        word[n] = '\0'; /* bounded: compared above */
        if (n && redact_word(word + strspn(word, " "), key))
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

/* Where user and password may begin: behind scheme://, and behind clickhouse, also if its slashes
 * are mistyped; NULL: nowhere from here on. *ours: it is the latter. */
static inline char *redact_next_url(char *text, bool *ours)
{
    char *url = strstr(text, "://"), *own = text;

    for (own = strstr(own, "clickhouse"); own; own = strstr(own, "clickhouse")) {
        own += strlen("clickhouse");
        own += own[0] == 's' && (own[1] == ':' || own[1] == '/');
        if (*own == ':' || *own == '/')
            break;
    }
    if (own)
        own += strspn(own, ":/");
    if (url)
        url += strlen("://");
    *ours = own && (!url || own <= url);
    return *ours ? own : url;
}

/* ?password=... and &password=... of a URL: what some write in the place of user:password@. */
static inline void redact_parameters(char *text)
{
    static const char *const names[] = { "password=", "passwd=", "pwd=", "token=", "secret=" };

    for (char *at = strpbrk(text, "?&"); at; at = strpbrk(at + 1, "?&"))
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            char *value = at + 1 + strlen(names[i]);
            size_t len;

            if (strncasecmp(at + 1, names[i], strlen(names[i])) != 0)
                continue;
            len = strcspn(value, " \t\n\"'&");
            if (len) {
                value[0] = '*';
                memmove(value + 1, value + len, strlen(value + len) + 1);
            }
        }
}

/* Whatever the list says, a command line and a message are told without passwords of URLs:
 * scheme://user:*@host and ?password=*. */
static inline void redact_passwords(char *text)
{
    bool ours;

    for (char *at = redact_next_url(text, &ours); at; at = redact_next_url(at, &ours)) {
        char *colon, *end, *host;

        /* Of those that we are given the last '@' ends the password, whatever is in it. */
        end = host = at + strcspn(at, ours ? " \t\n\"'" : " \t\n\"'/?#");
        colon = (char *)memchr(at, ':', (size_t)(end - at));
        while (host > at && *host != '@')
            host--;
        if (colon && host > colon + 1) {
            colon[1] = '*';
            memmove(colon + 2, host, strlen(host) + 1);
        }
    }
    redact_parameters(text);
}

/* Whether a recording leaves out all that others than its owner have no business with. */
static inline bool redact_hides_all(const char *list)
{
#define REDACT_KEY(kind, of_kind) &&redact_hides(list, of_kind)
    return true REDACT_KEYS(REDACT_KEY);
#undef REDACT_KEY
}

#endif
