/* text.c - growable strings, paths, edit distance, human-readable numbers. */
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

bool hil_text_ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
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

#define WORD_MAX 63

/* Edit distance: insertions, deletions, changes and swaps of neighbouring letters. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t n = strlen(b);
    if (n > WORD_MAX) return SIZE_MAX;
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= n; ++j) last[j] = j;
    for (size_t i = 0; a[i]; ++i) {
        row[0] = i + 1;
        for (size_t j = 0; j < n; ++j) {
            size_t best = last[j] + (a[i] != b[j]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (last[j + 1] + 1 < best) best = last[j + 1] + 1;
            if (i && j && a[i] == b[j - 1] && a[i - 1] == b[j] && before[j - 1] + 1 < best)
                best = before[j - 1] + 1;
            row[j + 1] = best;
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[n];
}

/* Whether one is a prefix of the other, of at least 3 letters. */
static bool begins(const char *word, const char *candidate)
{
    size_t w = strlen(word), c = strlen(candidate);
    if (w < c) return w >= 3 && memcmp(word, candidate, w) == 0;
    return c >= 3 && w <= 2 * c && memcmp(word, candidate, c) == 0;
}

const char *hil_text_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t least = SIZE_MAX, size = strlen(word);
    for (size_t i = 0; i < count; ++i) {
        size_t longer = strlen(candidates[i]), d = distance(word, candidates[i]);
        if (longer < size) longer = size;
        if (d < least && (d <= 1 || d <= longer / 3 || begins(word, candidates[i]))) {
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

const char *hil_text_seconds(char out[32], double seconds)
{
    static const struct {
        double from, unit; /* seconds */
        int digits;
        const char *name;
    } forms[] = {
        {730 * 86400., 365.25 * 86400, 1, "years"},
        {48 * 3600., 86400, 1, "days"},
        {3599.5, 3600, 1, "h"},
        {9.95, 1, 1, "s"},
        {0.0995, 1, 2, "s"},
        {0.00995, 1e-3, 0, "ms"},
        {0.000995, 1e-3, 1, "ms"},
        {0, 1e-6, 0, "us"},
    };
    size_t i = 0;
    long long whole = seconds < 3600 ? llround(seconds) : 3600;
    while (seconds < forms[i].from && i + 1 < sizeof forms / sizeof *forms) ++i;
    if (!(seconds >= 0 && isfinite(seconds)))
        snprintf(out, 32, "?");
    else if (seconds >= 59.95 && whole < 3600)
        snprintf(out, 32, "%lld min %lld s", whole / 60, whole % 60);
    else
        snprintf(out, 32, "%.*f %s", forms[i].digits, seconds / forms[i].unit, forms[i].name);
    return out;
}

void hil_text_real(char out[32], double real)
{
    if (isnan(real)) {
        snprintf(out, 32, "nan");
        return;
    }
    if (isinf(real)) {
        snprintf(out, 32, real < 0 ? "-inf" : "inf");
        return;
    }
    char digits[25]; /* -1.2345678901234567e-308 */
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, real);
    while (strtod(digits, NULL) != real && ++precision < 17);
    char *mark = strchr(digits, 'e');
    int exponent = (int)strtol(mark + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16) {
        int decimals = precision - exponent;
        snprintf(out, 32, "%.*f%s", decimals > 0 ? decimals : 0, real, decimals > 0 ? "" : ".0");
        return;
    }
    *mark = 0;
    snprintf(out, 32, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent) % 1000);
}
