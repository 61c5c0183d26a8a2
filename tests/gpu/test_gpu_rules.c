/* test_gpu_rules.c - update rules and sums of squares on a GPU: the same bits as on the CPU. */
#include "gpu/gpu_check.h"

#include "optim/cuda.h"
#include "kernels/rounding.h"

/* The arrays of a block, on one side. */
typedef struct state {
    void *array[4 + HIL_USES]; /* weight, rest, moments, gradients */
    size_t bytes[4 + HIL_USES];
    bool sums; /* gradients are fp32 sums, not rounded yet */
} state;

static hil_block block_of(const state *s, int64_t count, hil_dtype dtype, int gradients)
{
    hil_block b = {.count = count,
                   .dtype = dtype,
                   .sums = s->sums,
                   .weight = s->array[0],
                   .rest = s->array[1],
                   .moment = {s->array[2], s->array[3]},
                   .gradients = gradients};
    for (int i = 0; i < gradients; ++i) b.gradient[i] = s->array[4 + i];
    return b;
}

static float random_number(void)
{
    return (float)(gpu_random() * exp(6 * gpu_random()));
}

/* Masters, moments and gradients over many magnitudes. */
static void make_state(state *s, const hil_rule *rule, int64_t count, hil_dtype dtype)
{
    size_t each = hil_dtype_size(dtype);
    hil_dtype stored = s->sums ? HIL_F32 : dtype;
    s->bytes[0] = (size_t)count * each;
    s->bytes[1] = hil_rest_bytes(dtype, count);
    for (int i = 0; i < rule->moments; ++i) s->bytes[2 + i] = hil_codec_bytes(rule->codec, count);
    for (int i = 0; i < HIL_USES; ++i) s->bytes[4 + i] = (size_t)count * hil_dtype_size(stored);
    for (int i = 0; i < 4 + HIL_USES; ++i) s->array[i] = calloc(1, s->bytes[i] + 1);
    float *numbers = malloc((size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; ++i) {
        float w = random_number();
        if (dtype == HIL_F32) ((float *)s->array[0])[i] = w;
        if (dtype == HIL_F16) {
            ((float *)s->array[1])[i] = w;
            ((uint16_t *)s->array[0])[i] = hil_f16_round(w);
        }
        if (dtype == HIL_BF16) {
            ((uint16_t *)s->array[0])[i] = hil_bf16_high(w);
            ((uint16_t *)s->array[1])[i] = hil_bf16_low(w);
        }
    }
    for (int k = 0; k < rule->moments; ++k) {
        for (int64_t i = 0; i < count; ++i) {
            float m = random_number() * 1e-3f;
            numbers[i] = i % 1000 < 300 ? 0 : k ? m * m : m;
        }
        if (rule->codec == HIL_CODEC_Q8)
            hil_q8_encode(s->array[2 + k], numbers, k ? HIL_Q8_UNSIGNED : HIL_Q8_SIGNED, count);
        else
            memcpy(s->array[2 + k], numbers, (size_t)count * sizeof(float));
    }
    for (int k = 0; k < HIL_USES; ++k) {
        for (int64_t i = 0; i < count; ++i) numbers[i] = i % 512 < 256 ? random_number() : 0;
        hil_dtype_from_f32(s->array[4 + k], numbers, stored, count);
    }
    free(numbers);
}

/* Elements [first, first + count) of a block; `first` is a multiple of HIL_CODEC_GROUP. */
static hil_block part_of(const hil_rule *rule, const hil_block *whole, int64_t first, int64_t count)
{
    hil_block part = *whole;
    size_t at = (size_t)first * hil_dtype_size(whole->dtype);
    part.count = count;
    part.weight = (char *)whole->weight + at;
    part.rest = (char *)whole->rest + hil_rest_bytes(whole->dtype, first);
    for (int m = 0; m < rule->moments; ++m)
        part.moment[m] = (char *)whole->moment[m] + hil_codec_bytes(rule->codec, first);
    for (int u = 0; u < whole->gradients; ++u)
        part.gradient[u] = (const char *)whole->gradient[u] +
                           (size_t)first * hil_dtype_size(whole->sums ? HIL_F32 : whole->dtype);
    return part;
}

/* Updates the block in one call as many parts: more than one launch takes, of different lengths,
   one of them empty. Parts that have other numbers and no gradient change nothing. */
static void update_pieces(const hil_rule *rule, const hil_rule_step *step, const hil_block *whole)
{
    enum { PARTS = 100 };
    struct {
        const hil_rule *rule;
        hil_rule_step step[2]; /* of a hil_update_rule */
    } numbers = {.rule = rule, .step[1] = *step};
    hil_block part[PARTS + 1];
    int64_t first = 0;
    for (int i = 0; i < PARTS; ++i) {
        int64_t rest = whole->count - first, count = (i % 7) * HIL_CODEC_GROUP;
        if (i == PARTS - 1 || count > rest) count = rest;
        part[i] = part_of(rule, whole, first, count);
        part[i].numbers = 1;
        first += count;
    }
    part[PARTS] = *whole;
    part[PARTS].gradients = 0;
    CHECK_OK(hil_cuda_math.update(gpu, HIL_STREAM_UPDATE, &numbers, part, PARTS + 1));
}

static void check_scope(const hil_rule *rule, hil_dtype dtype, int64_t count, int gradients,
                        bool sums, hil_block_scope scope)
{
    gpu_side side = {.device = gpu};
    state cpu = {.sums = sums}, there;
    gpu_seed = 11;
    make_state(&cpu, rule, count, dtype);
    there = cpu;
    for (int i = 0; i < 4 + HIL_USES; ++i)
        there.array[i] = gpu_memory(&side, cpu.array[i], cpu.bytes[i]);
    hil_block at_cpu = block_of(&cpu, count, dtype, gradients);
    hil_block at_gpu = block_of(&there, count, dtype, gradients);
    at_cpu.scope = at_gpu.scope = scope;
    for (int step = 1; step <= 3; ++step) {
        hil_rule_step numbers = {.shrink = 1 - 1e-4f,
                                 .beta1_rest = 0.1f,
                                 .beta2 = 0.95f,
                                 .beta2_rest = 0.05f,
                                 .rate = 3e-3f / (float)step,
                                 .root = 1.7f,
                                 .eps = 1e-8f,
                                 .factor = 0.37f,
                                 .lr = 2e-3f};
        hil_rule_update(rule, &numbers, &at_cpu);
        update_pieces(rule, &numbers, &at_gpu);
    }
    hil_event *updated;
    CHECK_OK(gpu->events->create(gpu, &updated));
    CHECK_OK(gpu->events->record(gpu, HIL_STREAM_UPDATE, updated));
    CHECK_OK(gpu->events->follow(gpu, HIL_STREAM_COMPUTE, updated));
    gpu->events->destroy(gpu, updated);
    for (int i = 0; i < 5; ++i) { /* Nesterov's momentum is where the first gradient was */
        char *got = gpu_read(&side, there.array[i], there.bytes[i]);
        for (size_t b = 0; b < cpu.bytes[i]; ++b) {
            if (got[b] == ((char *)cpu.array[i])[b]) continue;
            fprintf(stderr, "%s %s, %lld elements, %d gradients: array %d differs at byte %zu\n",
                    rule->name, hil_dtype_name(dtype), (long long)count, gradients, i, b);
            exit(1);
        }
        free(got);
    }
    for (int i = 0; i < 4 + HIL_USES; ++i) {
        free(cpu.array[i]);
        gpu_release(&side, there.array[i]);
    }
}

static void check_rule(const hil_rule *rule, hil_dtype dtype, int64_t count, int gradients,
                       bool sums)
{
    check_scope(rule, dtype, count, gradients, sums, HIL_SCOPE_ELEMENTS);
    if (!rule->matrix || dtype == HIL_F16 || sums) return;
    check_scope(rule, dtype, count, gradients, false, HIL_SCOPE_MOMENTUM);
    check_scope(rule, dtype, count, gradients, false, HIL_SCOPE_MATRIX);
}

/* The gradients of at most `count` elements from `first` on. */
static hil_block piece_of(const hil_block *whole, int64_t first, int64_t count)
{
    hil_block part = *whole;
    part.count = whole->count - first < count ? whole->count - first : count;
    for (int u = 0; u < part.gradients; ++u)
        part.gradient[u] = (const char *)part.gradient[u] +
                           (size_t)first * hil_dtype_size(part.sums ? HIL_F32 : part.dtype);
    return part;
}

/* Squares pieces of `piece` elements, as a small budget would. */
static void square_on_gpu(const hil_block *whole, int64_t piece, double *lanes)
{
    for (int64_t first = 0; first < whole->count; first += piece) {
        hil_block part = piece_of(whole, first, piece);
        CHECK_OK(hil_device_math_of(gpu)->square(gpu, HIL_STREAM_COMPUTE, &part, first, lanes));
    }
}

static void square_on_cpu(const hil_block *whole, double *lanes)
{
    for (int64_t first = 0; first < whole->count; first += HIL_BLOCK) {
        hil_block part = piece_of(whole, first, HIL_BLOCK);
        hil_block_square(&part, lanes + first / HIL_BLOCK * HIL_SQUARES);
    }
}

static void check_squares(hil_dtype dtype, int64_t count, int gradients, int64_t piece, bool sums)
{
    gpu_side side = {.device = gpu};
    state cpu = {.sums = sums}, there;
    gpu_seed = 13;
    make_state(&cpu, &hil_rules[HIL_ADAMW], count, dtype);
    there = cpu;
    for (int i = 4; i < 4 + HIL_USES; ++i)
        there.array[i] = gpu_memory(&side, cpu.array[i], cpu.bytes[i]);
    int64_t blocks = (count + HIL_BLOCK - 1) / HIL_BLOCK;
    size_t bytes = (size_t)blocks * HIL_SQUARES * sizeof(double);
    double *want = malloc(bytes), *shared;
    for (int64_t i = 0; i < blocks * HIL_SQUARES; ++i) want[i] = gpu_random();
    double *lanes = gpu_memory(&side, want, bytes);
    hil_block at_gpu = block_of(&there, count, dtype, gradients);
    hil_block at_cpu = block_of(&cpu, count, dtype, gradients);
    square_on_gpu(&at_gpu, piece, lanes);
    square_on_cpu(&at_cpu, want);
    double *got = gpu_read(&side, lanes, bytes);
    for (int64_t i = 0; i < blocks * HIL_SQUARES; ++i) CHECK(got[i] == want[i]);
    CHECK_OK(gpu->heap->share(gpu, (size_t)blocks * sizeof(double), (void **)&shared));
    CHECK_OK(hil_device_math_of(gpu)->squared(gpu, HIL_STREAM_COMPUTE, lanes, blocks, shared));
    CHECK_OK(gpu->queue->finish(gpu));
    for (int64_t b = 0; b < blocks; ++b) {
        double sum = 0;
        for (int i = 0; i < HIL_SQUARES; ++i) sum += want[b * HIL_SQUARES + i];
        CHECK(shared[b] == sum);
    }
    gpu->heap->unshare(gpu, shared);
    free(got);
    free(want);
    gpu_release(&side, lanes);
    for (int i = 0; i < 4 + HIL_USES; ++i) {
        free(cpu.array[i]);
        if (i >= 4) gpu_release(&side, there.array[i]);
    }
}

static void round_on_gpu(const hil_rounding *rounding)
{
    CHECK_OK(hil_device_math_of(gpu)->round(gpu, HIL_STREAM_COMPUTE, rounding));
}

static void check_rounding(hil_dtype dtype, int64_t piece, bool squares, rounding_into into)
{
    gpu_side side = {.device = gpu};
    rounding_case c = rounding_make(dtype);
    size_t bytes = (size_t)c.count * hil_dtype_size(dtype);
    size_t lane_bytes = (size_t)(c.blocks * HIL_SQUARES) * sizeof(double);
    float *sum = gpu_memory(&side, c.sum, (size_t)c.count * sizeof *sum);
    void *out = into == ROUNDING_IN_PLACE ? sum : gpu_memory(&side, NULL, bytes);
    double *lanes = gpu_memory(&side, NULL, lane_bytes);
    double *square;
    CHECK_OK(gpu->heap->share(gpu, (size_t)c.blocks * sizeof *square, (void **)&square));
    rounding_place place = {sum, into == ROUNDING_NOWHERE ? NULL : out, lanes,
                            squares ? square : NULL};
    rounding_run(&c, piece, &place, round_on_gpu);
    char *got = gpu_read(&side, out, bytes);
    if (into != ROUNDING_NOWHERE) CHECK(memcmp(got, c.out, bytes) == 0);
    if (squares) CHECK(memcmp(square, c.square, (size_t)c.blocks * sizeof *square) == 0);
    gpu->heap->unshare(gpu, square);
    free(got);
    gpu_release(&side, sum);
    if (into != ROUNDING_IN_PLACE) gpu_release(&side, out);
    gpu_release(&side, lanes);
    rounding_free(&c);
}

/* Adds the gradients of several ranks: the same bits as the CPU's conversions. */
static void check_sums(hil_dtype dtype, int64_t count, int ranks)
{
    gpu_side side = {.device = gpu};
    size_t size = hil_dtype_size(dtype), bytes = (size_t)count * size;
    float *sum = malloc((size_t)count * 4 * (size_t)ranks), *one = malloc((size_t)count * 4);
    char *parts = malloc(bytes * (size_t)ranks), *want = malloc(bytes);
    for (int64_t i = 0; i < count * ranks; ++i) sum[i] = random_number();
    hil_dtype_from_f32(parts, sum, dtype, count * ranks);
    void *out = gpu_memory(&side, NULL, bytes);
    hil_tensor tensor = {dtype, {1, {count}}, out};
    void *parts_there = gpu_memory(&side, parts, bytes * (size_t)ranks);

    hil_dtype_to_f32(sum, parts, dtype, count);
    for (int r = 1; r < ranks; ++r) {
        hil_dtype_to_f32(one, parts + (size_t)r * bytes, dtype, count);
        for (int64_t i = 0; i < count; ++i) sum[i] += one[i];
    }
    hil_dtype_from_f32(want, sum, dtype, count);
    CHECK_OK(hil_device_math_of(gpu)->reduce(gpu, HIL_STREAM_COMPUTE, &tensor, parts_there, ranks));
    char *got = gpu_read(&side, out, bytes);
    CHECK(memcmp(got, want, bytes) == 0);
    free(got);
    gpu_release(&side, out);
    gpu_release(&side, parts_there);
    free(sum);
    free(one);
    free(parts);
    free(want);
}

int main(void)
{
    gpu_begin();
    hil_device_math_set(gpu, &hil_cuda_math);
    for (int r = 0; r < HIL_RULES; ++r)
        for (int d = HIL_F32; d <= HIL_F16; ++d)
            for (int gradients = 1; gradients <= HIL_USES; gradients += 2) {
                check_rule(&hil_rules[r], (hil_dtype)d, 5 * 256, gradients, false);
                check_rule(&hil_rules[r], (hil_dtype)d, 300001, gradients, false);
                check_rule(&hil_rules[r], (hil_dtype)d, 300001, gradients, true);
                check_rule(&hil_rules[r], (hil_dtype)d, 13, gradients, gradients > 1);
            }
    for (int d = HIL_F32; d <= HIL_F16; ++d)
        for (int gradients = 1; gradients <= HIL_USES; gradients += 3) {
            check_squares((hil_dtype)d, 200003, gradients, 200003, false);
            check_squares((hil_dtype)d, 200003, gradients, 200003, true);
            check_squares((hil_dtype)d, 200003, gradients, 256 * 100, gradients > 1);
            check_squares((hil_dtype)d, 100, gradients, 256, false);
            check_sums((hil_dtype)d, 10001, gradients);
        }
    rounding_each(check_rounding);
    gpu_end();
    return 0;
}
