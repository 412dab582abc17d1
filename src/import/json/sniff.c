/* sniff.c -- see sniff.h. */
#include "import/json/sniff.h"

#include "import/json/event_scan.h"

#include <string.h>

bool head_contains(const uint8_t *head, size_t len, const char *word)
{
    return memmem(head, len, word, strlen(word)) != NULL;
}

char json_first_bracket(const uint8_t *head, size_t len)
{
    size_t i = len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

    while (i < len && is_blank((char)head[i]))
        i++;
    return i < len && (head[i] == '{' || head[i] == '[') ? (char)head[i] : '\0';
}

bool head_has_events(const uint8_t *head, size_t len)
{
    return head_contains(head, len, "\"traceEvents\"") || head_contains(head, len, "\"ph\"");
}
