/* text.c - growable bytes, paths, edit distance. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

hil_status hil_text_add(hil_text *text, const void *bytes, size_t size)
{
    HIL_TRY(HIL_GROW(&text->data, &text->capacity, text->size + size + 1));
    if (size) memcpy(text->data + text->size, bytes, size);
    text->size += size;
    text->data[text->size] = 0;
    return HIL_OK;
}

hil_status hil_text_print(hil_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    hil_status status = HIL_GROW(&text->data, &text->capacity, text->size + (size_t)size + 1);
    if (status == HIL_OK) {
        vsnprintf(text->data + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
    return status;
}

hil_status hil_text_quote(hil_text *text, const char *string)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escape[] = "\"\\bfnrt";
    HIL_TRY(hil_text_add(text, "\"", 1));
    for (; *string; ++string) {
        const char *at = strchr(plain, *string);
        if (at)
            HIL_TRY(hil_text_print(text, "\\%c", escape[at - plain]));
        else if ((unsigned char)*string < 0x20)
            HIL_TRY(hil_text_print(text, "\\u%04x", (unsigned char)*string));
        else
            HIL_TRY(hil_text_add(text, string, 1));
    }
    return hil_text_add(text, "\"", 1);
}

void hil_text_free(hil_text *text)
{
    hil_free(text->data);
    *text = (hil_text){0};
}

hil_status hil_path_join(char out[HIL_PATH_MAX], const char *dir, const char *name)
{
    int size = snprintf(out, HIL_PATH_MAX, "%s/%s", dir, name);
    if (size < 0 || size >= HIL_PATH_MAX)
        return hil_fail(HIL_ERR_INPUT, "path too long: %.60s.../%.60s", dir, name);
    return HIL_OK;
}

bool hil_path_is_plain(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static size_t distance(const char *a, const char *b)
{
    size_t row[64];
    size_t n = strlen(b);
    if (n >= 63) return SIZE_MAX;
    for (size_t j = 0; j <= n; ++j) row[j] = j;
    for (size_t i = 0; a[i]; ++i) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; ++j) {
            size_t best = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

const char *hil_text_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t least = strlen(word) / 2 + 2;
    for (size_t i = 0; i < count; ++i) {
        size_t d = distance(word, candidates[i]);
        if (d < least) {
            least = d;
            best = candidates[i];
        }
    }
    return best;
}

static const char *scaled(char out[32], double value, double base, const char *const unit[6])
{
    size_t i = 0;
    while (value >= base && i < 5) {
        value /= base;
        ++i;
    }
    snprintf(out, 32, i ? "%.1f%s" : "%.0f%s", value, unit[i]);
    return out;
}

const char *hil_text_count(char out[32], uint64_t count)
{
    static const char *const unit[6] = {"", "K", "M", "B", "T", "Q"};
    return scaled(out, (double)count, 1000, unit);
}

const char *hil_text_bytes(char out[32], uint64_t bytes)
{
    static const char *const unit[6] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
    return scaled(out, (double)bytes, 1024, unit);
}
