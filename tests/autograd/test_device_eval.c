/* Losses, logits and generation on an asynchronous device have the bits of the CPU. An id outside
   the table, which only the device sees, fails the pass. */
#include "device_net.h"

#include <math.h>

typedef struct numbers {
    double loss;
    float *logits; /* of all positions, then of each generated one */
    int64_t count;
} numbers;

/* Runs a prompt, then one position at a time. */
static void generate(net_rig *r, float *logits)
{
    int64_t vocab = hil_engine_vocab(r->engine), length = NET_SEQ / 2;
    CHECK_OK(hil_engine_cache_begin(r->engine, NET_CACHE));
    for (int64_t at = 0; at < NET_SEQ; at += length, length = 1, logits += vocab) {
        hil_micro micro = {
            .sequences = 1, .length = length, .token = r->token + at, .position = r->position + at};
        CHECK_OK(hil_engine_extend(r->engine, &micro, logits));
    }
    hil_engine_cache_end(r->engine);
}

static hil_micro whole(const net_rig *r)
{
    return (hil_micro){.sequences = NET_BATCH,
                       .length = NET_SEQ,
                       .token = r->token,
                       .target = r->target,
                       .position = r->position,
                       .first = r->first};
}

static numbers evaluate(const net_how *how)
{
    net_rig r;
    numbers out = {0};
    net_open(&r, how);
    hil_micro all = whole(&r);
    int64_t vocab = hil_engine_vocab(r.engine);
    out.count = NET_BATCH * NET_SEQ * vocab;
    CHECK_OK(HIL_ALLOC(out.count, &out.logits));
    if (how->generates) {
        generate(&r, out.logits);
        generate(&r, out.logits);
    } else if (how->logits) {
        CHECK_OK(hil_engine_logits(r.engine, &all, out.logits));
    } else {
        CHECK_OK(hil_engine_loss(r.engine, &all, &out.loss));
        CHECK_INT(hil_engine_work(r.engine), r.plan.work);
        CHECK_OK(hil_engine_loss(r.engine, &all, &out.loss));
    }
    net_close(&r);
    return out;
}

static void compare(const net_how *how)
{
    net_how cpu = *how;
    cpu.delay = 0;
    numbers expected = evaluate(&cpu), got = evaluate(how);
    CHECK(how->generates || how->logits ? expected.logits[0] != 0 : expected.loss > 0);
    CHECK(memcmp(&got.loss, &expected.loss, sizeof got.loss) == 0);
    CHECK(memcmp(got.logits, expected.logits, (size_t)got.count * sizeof *got.logits) == 0);
    hil_free(got.logits);
    hil_free(expected.logits);
}

static int norms; /* of weights, computed so far */

static hil_status count_norms(hil_op_call *call)
{
    norms += call->op == &hil_op_weight_norm && !hil_pool_is_dry(call->pool);
    return hil_ops_threads.forward(call);
}

/* The norms of weights with magnitudes are computed once for all that is generated; the logits are
   those of whole sequences. */
static void check_norms(void)
{
    net_rig r;
    net_how how = {.model = "llama", .delay = 3, .generates = true, .dora = true};
    compare(&how);
    hil_device_ops counted = hil_ops_threads;
    counted.forward = count_norms;
    how.ops = &counted;
    net_open(&r, &how);
    int64_t vocab = hil_engine_vocab(r.engine), passes = 1 + NET_SEQ / 2;
    float *logits;
    CHECK_OK(HIL_ALLOC(passes * vocab, &logits));
    generate(&r, logits);
    CHECK_INT(norms, 3);
    generate(&r, logits);
    CHECK_INT(norms, 6);
    net_close(&r);
    how.ops = NULL, how.generates = false, how.logits = true;
    numbers all = evaluate(&how);
    for (int64_t i = 0; i < passes * vocab; ++i) {
        double expected = (double)all.logits[(NET_SEQ / 2 - 1) * vocab + i];
        CHECK(fabs((double)logits[i] - expected) < 1e-5);
    }
    hil_free(all.logits);
    hil_free(logits);
}

static void check_ids(void)
{
    net_rig r;
    double loss;
    net_how how = {.model = "llama", .delay = 3};
    net_open(&r, &how);
    hil_micro all = whole(&r);
    r.token[NET_SEQ] = (int32_t)hil_engine_vocab(r.engine);
    CHECK_FAILS(hil_engine_loss(r.engine, &all, &loss), HIL_ERR_INPUT, "is outside the table");
    net_close(&r);
}

int main(void)
{
    static const char *const models[] = {"gpt2", "llama", "qwen2_window"};
    for (int m = 0; m < 3; ++m)
        for (int dtype = HIL_F32; dtype <= HIL_F16; ++dtype) {
            net_how how = {.model = models[m],
                           .dtype = (hil_dtype)dtype,
                           .documents = m == 1,
                           .delay = 1 + (uint64_t)(m + dtype),
                           .weights = dtype == HIL_BF16 ? HIL_HOST : HIL_DEVICE,
                           .values = {HIL_DEVICE, HIL_HOST, HIL_DEVICE}};
            compare(&how);
            how.logits = true;
            compare(&how);
            how.logits = false;
            how.generates = true;
            compare(&how);
        }
    check_norms();
    check_ids();
    return 0;
}
