/* rope.c - the frequencies of rotary embedding, as transformers computes them (in fp32). */
#include "model/build.h"

#include "base/fail.h"

#include <math.h>

#define TURN 6.283185307179586

/* Frequencies at most `original / high` turns long stay, those of at least `original / low` are
   divided, and between both is a mixture. */
static float scale_llama3(const hil_rope_config *rope, float frequency)
{
    double wave = TURN / (double)frequency, original = (double)rope->original_positions;
    if (wave > original / rope->low_freq) return (float)((double)frequency / rope->factor);
    if (wave <= original / rope->high_freq) return frequency;
    double smooth = (original / wave - rope->low_freq) / (rope->high_freq - rope->low_freq);
    return (float)((1 - smooth) * (double)frequency / rope->factor + smooth * (double)frequency);
}

/* The frequency, counted from 0, that turns `turns` times within the original length. */
static double yarn_index(const hil_rope_config *rope, int64_t dims, double turns)
{
    return (double)dims * log((double)rope->original_positions / (turns * TURN)) /
           (2 * log(rope->theta));
}

static float scale_yarn(const hil_rope_config *rope, int64_t dims, int64_t i, float power)
{
    double low = yarn_index(rope, dims, rope->beta_fast);
    double high = yarn_index(rope, dims, rope->beta_slow);
    if (rope->truncate) low = floor(low), high = ceil(high);
    if (low < 0) low = 0;
    if (high > (double)(dims - 1)) high = (double)(dims - 1);
    if (low == high) high += 0.001;
    float ramp = ((float)i - (float)low) / (float)(high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    float keep = 1 - ramp, divided = 1 / ((float)rope->factor * power);
    return divided * (1 - keep) + 1 / power * keep;
}

/* Pairs after the part that turns stand still. */
static float scale_proportional(const hil_rope_config *rope, int64_t dims, int64_t i, float power)
{
    double part = rope->partial > 0 ? rope->partial : 1;
    bool turns = i < (int64_t)(part * (double)dims / 2);
    return turns ? (float)((double)(1 / power) / rope->factor) : 0;
}

static void fill(const hil_rope_config *rope, int64_t dims, const float *divisor, float *out)
{
    for (int64_t i = 0; i < dims / 2; ++i) {
        float power = powf((float)rope->theta, (float)(2 * i) / (float)dims);
        out[i] = 1.0f / (divisor ? divisor[i] * power : power);
        if (rope->kind == HIL_ROPE_LINEAR) out[i] = (float)((double)out[i] / rope->factor);
        if (rope->kind == HIL_ROPE_LLAMA3) out[i] = scale_llama3(rope, out[i]);
        if (rope->kind == HIL_ROPE_YARN) out[i] = scale_yarn(rope, dims, i, power);
        if (rope->kind == HIL_ROPE_PROPORTIONAL) out[i] = scale_proportional(rope, dims, i, power);
    }
}

hil_status hil_build_rope(hil_model *model, const hil_config *c, const hil_rope_config *rope,
                          hil_rope_table *out)
{
    int64_t dims = hil_config_rope_dims(c, rope);
    size_t bytes = (size_t)(dims / 2) * sizeof(float);
    bool longer = rope->kind == HIL_ROPE_LONG;
    float *frequency, *other = NULL;
    HIL_TRY(hil_model_alloc(model, bytes, (void **)&frequency));
    if (longer) HIL_TRY(hil_model_alloc(model, bytes, (void **)&other));
    fill(rope, dims, longer ? rope->short_factor : NULL, frequency);
    if (longer) fill(rope, dims, rope->long_factor, other);
    for (int64_t i = 0; i < dims / 2 && c->reversed; ++i) {
        frequency[i] = -frequency[i];
        if (other) other[i] = -other[i];
    }
    hil_rope_defaults(&out->options);
    out->frequency = frequency;
    out->options.dims = dims < c->head_dim ? dims : 0;
    out->options.interleaved = c->interleaved;
    out->options.factor = rope->attention_factor;
    out->options.longer = other;
    out->options.longer_than = rope->original_positions;
    out->query = out->options;
    out->query.growth = rope->growth;
    out->query.growth_from = rope->original_positions;
    return HIL_OK;
}

hil_status hil_build_growth(hil_model *model, const hil_config *c, hil_rope_table *out)
{
    float *still;
    size_t pairs = (size_t)hil_config_key_dim(c) / 2;
    HIL_TRY(hil_model_alloc(model, pairs * sizeof *still, (void **)&still));
    out->frequency = still;
    hil_rope_defaults(&out->options);
    out->query = out->options;
    out->query.growth = c->growth.factor;
    out->query.growth_from = c->growth.from;
    out->query.growth_shift = c->growth.shift;
    return HIL_OK;
}
