/* The answers of which kto finds its kl: each behind the prompt of another record of its window,
   also those of pairs. What has no other takes no part, and windows keep their lengths. */
#include "train/pairs.h"

#include "check.h"

#include <string.h>

#define LENGTH 16

/* Reads windows as text, which write_text writes. */
static hil_batch read_text(const char *text, int32_t arrays[4][2 * LENGTH])
{
    int32_t begin = 0, at = 0, sequences = 0;
    memset(arrays, 0, 4 * sizeof *arrays);
    for (int i = 0; i < 2 * LENGTH; ++i) arrays[1][i] = -1;
    for (; *text; ++text) {
        if (*text == '|') continue;
        if (*text == '[') begin = at % LENGTH;
        if (*text == '_') arrays[1][at - 1] = text[1];
        if (*text == '[' || *text == '_') continue;
        arrays[0][at] = *text;
        arrays[2][at] = at % LENGTH - begin;
        arrays[3][at] = begin;
        sequences = at++ / LENGTH + 1;
    }
    CHECK_INT(at, sequences * LENGTH);
    return (hil_batch){.sequences = sequences,
                       .length = LENGTH,
                       .token = arrays[0],
                       .target = arrays[1],
                       .position = arrays[2],
                       .first = arrays[3]};
}

/* '[' before a document, '_' before a token that is learned, '|' between windows. */
static const char *write_text(const hil_batch *b)
{
    static char text[8 * LENGTH];
    size_t used = 0;
    for (int64_t i = 0; i < b->sequences * b->length; ++i) {
        int64_t at = i % b->length;
        CHECK_INT(b->position[i], at - b->first[i]);
        if (i && !at) text[used++] = '|';
        if (b->first[i] == at) text[used++] = '[';
        if (at && b->target[i - 1] >= 0) {
            CHECK_INT(b->target[i - 1], b->token[i]);
            text[used++] = '_';
        }
        text[used++] = (char)b->token[i];
    }
    text[used] = 0;
    return text;
}

static void check(const char *batch, const char *expected)
{
    static int32_t arrays[4][2 * LENGTH], other[4 * 2 * LENGTH];
    hil_batch from = read_text(batch, arrays), to;
    hil_pairs_mismatch(&from, other, &to);
    CHECK_TEXT(write_text(&to), expected);
}

int main(void)
{
    /* single answers, with the empty sides of their records */
    check("[ab_c[.[.[de_f_g[h_i[.[....", "[ab_i[.[.[de_c[h_f_g[.[....");
    check("[ab_c[.[............", "[abc[.[............");
    /* pairs: no answer meets its own prompt */
    check("[a_b[a_c_d[e_f_g[e_h[......", "[a_f_g[a_h[e_b[e_c_d[......");
    check("[a_b[a_c_d[e_f[e_h[i_j[i_k[...", "[a_j[a_k[e_b[e_c_d[i_f[i_h[...");
    check("[a_b_c[a_d[...........", "[abc[ad[...........");
    /* both kinds */
    check("[a_b[a_c[d_e[.[f_g[f_h[.....", "[a_g[a_h[d_b[.[f_e[f_c[.....");
    check("[a_b[a_c[d_e[.[.........", "[a_e[ac[d_b[.[.........");
    /* each window for itself */
    check("[a_b[.[.[c_d[..........|[e_f[.[.............",
          "[a_d[.[.[c_b[..........|[ef[.[.............");
    return 0;
}
