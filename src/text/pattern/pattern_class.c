/* pattern_class.c - sets of characters: [...], \p{...}, \s and the like. */
#include "text/pattern/pattern_tree.h"

#include <string.h>

static const char *const names[HIL_CATEGORY_COUNT] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"};

hil_status hil_pattern_read_add(hil_pattern_reader *reader, hil_pattern_item item)
{
    hil_pattern_tree *tree = reader->tree;
    HIL_TRY(HIL_GROW(&tree->items, &tree->item_capacity, tree->item_count + 1));
    item.next = reader->items;
    reader->items = (int)tree->item_count;
    tree->items[tree->item_count++] = item;
    return HIL_OK;
}

static uint32_t read_point(hil_pattern_reader *reader)
{
    size_t step;
    uint32_t point = hil_utf8_get(reader->at, &step);
    reader->at += step;
    return point;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* \xHH below 0x80, \x{H...} or \uHHHH. */
static uint32_t read_hex(hil_pattern_reader *reader, char kind)
{
    bool braces = kind == 'x' && *reader->at == '{';
    int most = braces ? 6 : kind == 'u' ? 4 : 2, count = 0;
    uint32_t value = 0;
    if (braces) ++reader->at;
    for (; count < most && hex_value(*reader->at) >= 0; ++count)
        value = value * 16 + (uint32_t)hex_value(*reader->at++);
    bool whole = count > 0 && (kind != 'u' || count == 4) && (!braces || *reader->at++ == '}');
    bool fits = value <= 0x10FFFF && (braces || kind == 'u' || value < 0x80);
    if (!whole || !fits || (value >= 0xD800 && value < 0xE000)) {
        reader->reason = "a code point that is not one";
        return 0;
    }
    return value;
}

/* \p{Lu}, \p{L}, \p{^L}, \P{L}. */
static hil_status read_property(hil_pattern_reader *reader, bool negated)
{
    char name[8] = "";
    size_t size = 0;
    if (*reader->at++ != '{') {
        reader->reason = "\\p without braces";
        return HIL_OK;
    }
    if (*reader->at == '^') {
        negated = !negated;
        ++reader->at;
    }
    while (*reader->at && *reader->at != '}' && size < sizeof name - 1)
        name[size++] = *reader->at++;
    hil_pattern_item item = {.kind = HIL_ITEM_CATEGORIES, .negated = negated};
    for (uint32_t i = 0; i < HIL_CATEGORY_COUNT; ++i)
        if (size && size <= 2 && strncmp(names[i], name, size) == 0) item.first |= 1u << i;
    if (strcmp(name, "Han") == 0) item.kind = HIL_ITEM_HAN;
    if (*reader->at != '}' || (item.kind == HIL_ITEM_CATEGORIES && item.first == 0)) {
        reader->reason = "a property that is neither a general category nor Han";
        return HIL_OK;
    }
    ++reader->at;
    return hil_pattern_read_add(reader, item);
}

/* A character after a backslash (*is_item false), or an item of a set. */
hil_status hil_pattern_read_escape(hil_pattern_reader *reader, uint32_t *point, bool *is_item)
{
    static const char plain[] = "tnrfvae", values[] = "\t\n\r\f\v\a\x1B";
    uint32_t c = *reader->at ? read_point(reader) : 0;
    const char *found = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    *is_item = true;
    hil_pattern_item item = {.negated = c < 'a'};
    if (c == 'p' || c == 'P') return read_property(reader, c == 'P');
    if (c == 's' || c == 'S' || c == 'w' || c == 'W') {
        item.kind = (c | 32) == 's' ? HIL_ITEM_SPACE : HIL_ITEM_WORD;
        item.first = reader->classes > 0;
        return hil_pattern_read_add(reader, item);
    }
    if (c == 'd' || c == 'D') {
        item.kind = HIL_ITEM_CATEGORIES;
        item.first = 1u << HIL_CATEGORY_ND;
        return hil_pattern_read_add(reader, item);
    }
    *is_item = false;
    *point = c;
    if (found)
        *point = (uint32_t)values[found - plain];
    else if (c == 'x' || c == 'u')
        *point = read_hex(reader, (char)c);
    else if (letter || c == 0 || (c >= '0' && c <= '9'))
        reader->reason = "an escape that is not known here";
    return HIL_OK;
}

static hil_status add_range(hil_pattern_reader *reader, uint32_t first, uint32_t last)
{
    return hil_pattern_read_add(
        reader, (hil_pattern_item){.kind = HIL_ITEM_RANGE, .first = first, .last = last});
}

hil_status hil_pattern_read_points(hil_pattern_reader *reader, uint32_t first, uint32_t last)
{
    HIL_TRY(add_range(reader, first, last));
    if (!reader->fold) return HIL_OK;
    if (last >= 0x80) {
        reader->reason = "(?i) with a character beyond ASCII";
        return HIL_OK;
    }
    for (uint32_t c = first; c <= last; ++c) {
        uint32_t low = c | 32, other = c ^ 32;
        if (low < 'a' || low > 'z') continue;
        HIL_TRY(add_range(reader, other, other));
        if (low == 's') HIL_TRY(add_range(reader, 0x17F, 0x17F));   /* long s */
        if (low == 'k') HIL_TRY(add_range(reader, 0x212A, 0x212A)); /* Kelvin sign */
    }
    return HIL_OK;
}

/* A character of a class; *is_item: an item was added instead. */
static hil_status read_member(hil_pattern_reader *reader, uint32_t *point, bool *is_item)
{
    *is_item = false;
    *point = 0;
    if (*reader->at == 0) {
        reader->reason = "a class without its ]";
        return HIL_OK;
    }
    *point = read_point(reader);
    return *point == '\\' ? hil_pattern_read_escape(reader, point, is_item) : HIL_OK;
}

/* A character, a range or an escape. */
static hil_status read_range(hil_pattern_reader *reader)
{
    uint32_t first, last;
    bool is_item;
    HIL_TRY(read_member(reader, &first, &is_item));
    if (is_item || reader->reason) return HIL_OK;
    last = first;
    if (reader->at[0] == '-' && reader->at[1] != ']' && reader->at[1] != 0) {
        ++reader->at;
        if (*reader->at == '[') reader->reason = "a range without an end";
        if (!reader->reason) HIL_TRY(read_member(reader, &last, &is_item));
        if (is_item || last < first) reader->reason = "a range without an end";
        if (reader->reason) return HIL_OK;
    }
    return hil_pattern_read_points(reader, first, last);
}

static hil_status read_nested(hil_pattern_reader *reader)
{
    int set;
    ++reader->at;
    if (*reader->at == ':') reader->reason = "a POSIX class";
    if (reader->reason) return HIL_OK;
    HIL_TRY(hil_pattern_read_class(reader, &set));
    if (reader->reason) return HIL_OK;
    return hil_pattern_read_add(reader,
                                (hil_pattern_item){.kind = HIL_ITEM_SET, .first = (uint32_t)set});
}

/* The parts between && of a class, each a set that refers to the one before. */
static hil_status read_parts(hil_pattern_reader *reader, int *set)
{
    const char *begin = reader->at; /* a ] here is a member */
    *set = -1;
    for (reader->items = -1; !reader->reason; begin = NULL) {
        bool ends = *reader->at == ']' && reader->at != begin;
        if (ends || (reader->at[0] == '&' && reader->at[1] == '&')) {
            hil_pattern_set part = {.items = reader->items, .also = *set};
            HIL_TRY(hil_pattern_tree_add_set(reader->tree, part, set));
            reader->items = -1;
            reader->at += ends ? 1 : 2;
            if (ends) return HIL_OK;
        } else {
            HIL_TRY(*reader->at == '[' ? read_nested(reader) : read_range(reader));
        }
    }
    return HIL_OK;
}

hil_status hil_pattern_read_class(hil_pattern_reader *reader, int *set)
{
    int outer = reader->items, parts;
    bool negated = *reader->at == '^';
    if (negated) ++reader->at;
    ++reader->classes;
    if (++reader->depth > HIL_PATTERN_DEPTH) reader->reason = "too many nested classes";
    HIL_TRY(read_parts(reader, &parts));
    --reader->depth;
    --reader->classes;
    *set = parts;
    if (negated && !reader->reason) {
        reader->items = -1;
        HIL_TRY(hil_pattern_read_add(
            reader, (hil_pattern_item){.kind = HIL_ITEM_SET, .first = (uint32_t)parts}));
        hil_pattern_set others = {.items = reader->items, .negated = true, .also = -1};
        HIL_TRY(hil_pattern_tree_add_set(reader->tree, others, set));
    }
    reader->items = outer;
    return HIL_OK;
}
