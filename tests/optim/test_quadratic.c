/* Every rule minimises a noisy quadratic, and AdamW with 8-bit moments matches AdamW. */
#include "base/normal.h"
#include "check.h"
#include "optim/update.h"

enum { N = 2048, STEPS = 200 };

static float target[N];

/* Independent normal numbers of a stream: every fourth. */
static void fill(uint64_t stream, int64_t first, float *out)
{
    static float all[4 * N];
    hil_normal_fill(17, stream, 4 * first, 4 * N, 1, all);
    for (int i = 0; i < N; ++i) out[i] = all[4 * i];
}

/* The loss is the mean of curvature * (w - target)^2 / 2; curvatures span four decades. */
static double curvature(int i)
{
    return pow(10, -4.0 * i / N);
}

static double loss_of(const float *w)
{
    double sum = 0;
    for (int i = 0; i < N; ++i) {
        double d = (double)w[i] - (double)target[i];
        sum += curvature(i) * d * d / 2;
    }
    return sum / N;
}

static double train(const hil_rule *rule, double lr)
{
    static float w[N], g[N], m[N], v[N], noise[N];
    memset(w, 0, sizeof w);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    hil_block block = {.count = N, .weight = w, .moment = {m, v}, .gradient = {g}, .gradients = 1};
    hil_optimizer optimizer = {
        .rule = rule, .beta1 = 0.9, .beta2 = rule->beta2, .eps = 1e-8, .clip = 0};
    for (int s = 1; s <= STEPS; ++s) {
        fill(2, s * N, noise);
        for (int i = 0; i < N; ++i) {
            double slope = (double)w[i] - (double)target[i];
            g[i] = (float)(curvature(i) * (slope + 0.1 * (double)noise[i]));
        }
        hil_update update = {.lr = lr, .loss_scale = 1, .updates = s};
        hil_rule_step step = hil_update_numbers(&update, &optimizer, false);
        hil_rule_update(rule, &step, &block);
    }
    return loss_of(w);
}

int main(void)
{
    static const float start[N];
    fill(1, 0, target);
    double before = loss_of(start);
    double adamw = train(&hil_rules[HIL_ADAMW], 0.02);
    double eight = train(&hil_rules[HIL_ADAMW8BIT], 0.02);
    double lion = train(&hil_rules[HIL_LION], 0.01);
    CHECK(adamw < 0.05 * before);
    CHECK(lion < 0.05 * before);
    CHECK_NEAR(eight, adamw, 0.03 * adamw);
    return 0;
}
