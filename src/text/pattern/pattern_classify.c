/* pattern_classify.c - code points to classes: those that no set of an expression tells apart. */
#include "text/pattern/pattern_tree.h"

#include "text/unicode/unicode_tables.h"

#include <stdlib.h>
#include <string.h>

enum { SETS_MAX = 64, CLASSES_MAX = 255 };

/* A code point and what the tables say of it. */
typedef struct letter {
    uint32_t point;
    unsigned category, flags;
} letter;

static bool set_has(const hil_pattern_tree *tree, int set, letter c);

static bool is_of(letter c, uint32_t categories)
{
    return categories >> c.category & 1;
}

static bool is_ascii_mark(uint32_t point)
{
    return point > ' ' && point < 127 && !((point | 32) >= 'a' && (point | 32) <= 'z') &&
           !(point >= '0' && point <= '9');
}

static bool item_has(const hil_pattern_tree *tree, const hil_pattern_item *item, letter c)
{
    enum { LETTERS = 0x3E, MARKS = 0x1C0, NUMBERS = 0xE00, PUNCTUATION = 0x7F000 };
    const uint32_t word = LETTERS | MARKS | 1u << HIL_CATEGORY_ND | 1u << HIL_CATEGORY_PC;
    switch (item->kind) {
    case HIL_ITEM_RANGE:
        return c.point >= item->first && c.point <= item->last;
    case HIL_ITEM_CATEGORIES:
        return is_of(c, item->first);
    case HIL_ITEM_SPACE:
        return c.flags & HIL_UNICODE_SPACE;
    case HIL_ITEM_WORD:
        if (item->first && c.point < 0x100) return is_of(c, word);
        return is_of(c, word) !=
               hil_unicode_in(hil_unicode_words, hil_unicode_words_count, c.point);
    case HIL_ITEM_HAN:
        return hil_unicode_in(hil_unicode_han, hil_unicode_han_count, c.point);
    case HIL_ITEM_DIGIT:
        return is_of(c, NUMBERS) !=
               hil_unicode_in(hil_unicode_digits, hil_unicode_digits_count, c.point);
    case HIL_ITEM_MARK:
        return (is_of(c, PUNCTUATION) || is_ascii_mark(c.point)) !=
               hil_unicode_in(hil_unicode_marks, hil_unicode_marks_count, c.point);
    case HIL_ITEM_SET:
        break;
    }
    return set_has(tree, (int)item->first, c);
}

static bool set_has(const hil_pattern_tree *tree, int set, letter c)
{
    const hil_pattern_set *s = &tree->sets[set];
    bool found = false;
    for (int i = s->items; i >= 0 && !found; i = tree->items[i].next)
        found = item_has(tree, &tree->items[i], c) != tree->items[i].negated;
    return found != s->negated && (s->also < 0 || set_has(tree, s->also, c));
}

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static size_t put_ranges(const hil_unicode_range *range, size_t count, uint32_t *out)
{
    for (size_t i = 0; i < count; ++i) {
        out[2 * i] = range[i].first;
        out[2 * i + 1] = range[i].last + 1;
    }
    return 2 * count;
}

/* Sorted code points, among them all at which membership in some set can change. */
static hil_status list_borders(const hil_pattern_tree *tree, uint32_t **out, size_t *count)
{
    size_t runs = hil_unicode_blocks[0x1100] + 1u, n = 0;
    size_t most = 1 + hil_unicode_categories_count + runs +
                  2 * (hil_unicode_words_count + hil_unicode_han_count + hil_unicode_digits_count +
                       hil_unicode_marks_count + tree->item_count);
    HIL_TRY(HIL_ALLOC(most, out));
    uint32_t *border = *out;
    for (size_t i = 0; i < hil_unicode_categories_count; ++i)
        border[n++] = hil_unicode_categories[i] >> 5;
    for (size_t i = 0; i < runs; ++i) border[n++] = hil_unicode_runs[i] >> 8;
    n += put_ranges(hil_unicode_words, hil_unicode_words_count, border + n);
    n += put_ranges(hil_unicode_han, hil_unicode_han_count, border + n);
    n += put_ranges(hil_unicode_digits, hil_unicode_digits_count, border + n);
    n += put_ranges(hil_unicode_marks, hil_unicode_marks_count, border + n);
    for (size_t i = 0; i < tree->item_count; ++i) {
        if (tree->items[i].kind != HIL_ITEM_RANGE) continue;
        border[n++] = tree->items[i].first;
        border[n++] = tree->items[i].last + 1;
    }
    border[n++] = 0x110000;
    qsort(border, n, sizeof *border, by_value);
    *count = n;
    return HIL_OK;
}

/* Sets the classes of the code points [from, to); pages that are equal are shared. */
typedef struct pages {
    hil_pattern *regex;
    uint8_t now[HIL_PATTERN_PAGE];
} pages;

static hil_status end_page(pages *p, size_t number)
{
    hil_pattern *regex = p->regex;
    size_t at = regex->page_count;
    while (at > 0 && memcmp(regex->page_classes[at - 1], p->now, sizeof p->now) != 0) --at;
    if (at == 0) {
        HIL_TRY(HIL_GROW(&regex->page_classes, &regex->page_capacity, regex->page_count + 1));
        memcpy(regex->page_classes[regex->page_count], p->now, sizeof p->now);
        at = ++regex->page_count;
    }
    regex->pages[number] = (uint16_t)(at - 1);
    return HIL_OK;
}

static hil_status put_class(pages *p, uint32_t from, uint32_t to, uint8_t class)
{
    while (from < to) {
        uint32_t page = from / HIL_PATTERN_PAGE, end = (page + 1) * HIL_PATTERN_PAGE;
        uint32_t stop = to < end ? to : end;
        memset(p->now + from % HIL_PATTERN_PAGE, class, stop - from);
        if (stop == end) HIL_TRY(end_page(p, page));
        from = stop;
    }
    return HIL_OK;
}

/* The class whose code points are in exactly these sets. */
static size_t class_of(hil_pattern *regex, uint64_t *members, uint64_t sets)
{
    size_t class = 0;
    while (class < regex->classes && members[class] != sets) ++class;
    if (class == regex->classes && class < CLASSES_MAX) members[regex->classes++] = sets;
    return class;
}

static hil_status classify(hil_pattern *regex, const hil_pattern_tree *tree, const uint32_t *border,
                           size_t count, uint64_t *members)
{
    pages p = {.regex = regex};
    size_t category = 0;
    for (size_t i = 0; i + 1 < count; ++i) {
        if (border[i] == border[i + 1]) continue;
        letter c = {.point = border[i], .flags = hil_unicode_flags(border[i])};
        while (category + 1 < hil_unicode_categories_count &&
               hil_unicode_categories[category + 1] >> 5 <= c.point)
            ++category;
        c.category = hil_unicode_categories[category] & 31;
        uint64_t sets = 0;
        for (size_t k = 0; k < tree->set_count; ++k)
            sets |= (uint64_t)set_has(tree, (int)k, c) << k;
        HIL_TRY(put_class(&p, border[i], border[i + 1], (uint8_t)class_of(regex, members, sets)));
    }
    for (size_t i = 0; i < 128; ++i) regex->ascii[i] = regex->page_classes[regex->pages[0]][i];
    return HIL_OK;
}

hil_status hil_pattern_classify(hil_pattern *regex, const hil_pattern_tree *tree,
                                uint64_t **members, const char **reason)
{
    uint32_t *border = NULL;
    size_t count;
    *members = NULL;
    if (tree->set_count > SETS_MAX) {
        *reason = "more than 64 sets of characters";
        return HIL_OK;
    }
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(CLASSES_MAX + 1, members));
    HIL_TRY_DONE(list_borders(tree, &border, &count));
    HIL_TRY_DONE(classify(regex, tree, border, count, *members));
    if (regex->classes == CLASSES_MAX) *reason = "more than 254 classes of characters";
    ++regex->classes; /* the end of the text */
done:
    hil_free(border);
    return status;
}
