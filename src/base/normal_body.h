/* normal_body.h - Philox4x32-10 and Box-Muller on arrays, compiled once for each instruction set:
   the including file defines NORMAL_KERNEL. Only additions, products, quotients and roots of IEEE
   arithmetic: compilers make vectors of them without changing a bit. */
#include "base/normal_formula.h"
#include "base/normal_kernel.h"

#define N HIL_NORMAL_GROUPS

typedef struct words {
    uint32_t word[4][N];
} words;

static inline void draw(const hil_normal_groups *g, words *w)
{
    for (int i = 0; i < N; ++i) {
        uint64_t low = g->first + (uint64_t)i;
        w->word[0][i] = (uint32_t)low;
        w->word[1][i] = (uint32_t)(low >> 32);
        w->word[2][i] = (uint32_t)g->high;
        w->word[3][i] = (uint32_t)(g->high >> 32);
    }
    uint32_t k0 = (uint32_t)g->key, k1 = (uint32_t)(g->key >> 32);
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < N; ++i) {
            uint64_t p0 = (uint64_t)0xD2511F53u * w->word[0][i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * w->word[2][i];
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ w->word[1][i] ^ k0;
            uint32_t n2 = (uint32_t)(p0 >> 32) ^ w->word[3][i] ^ k1;
            w->word[0][i] = n0;
            w->word[1][i] = (uint32_t)p1;
            w->word[2][i] = n2;
            w->word[3][i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

void NORMAL_KERNEL(hil_normal_groups *g)
{
    words w;
    float x[N], y[N], z[N], t[N];
    double radius[N];
    draw(g, &w);
    for (int i = 0; i < N; ++i) radius[i] = hil_normal_radius(w.word[0][i]);
    for (int i = 0; i < N; ++i) hil_normal_turn(w.word[1][i], radius[i], &x[i], &y[i]);
    for (int i = 0; i < N; ++i) radius[i] = hil_normal_radius(w.word[2][i]);
    for (int i = 0; i < N; ++i) hil_normal_turn(w.word[3][i], radius[i], &z[i], &t[i]);
    for (int i = 0; i < N; ++i) {
        g->out[4 * i] = x[i];
        g->out[4 * i + 1] = y[i];
        g->out[4 * i + 2] = z[i];
        g->out[4 * i + 3] = t[i];
    }
}
