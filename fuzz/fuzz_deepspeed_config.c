/* fuzz_deepspeed_config.c - any text as ds_config.json: refused with a line, or numbers in range.
 */
#include "base/fail.h"
#include "hilbert/deepspeed.h"
#include "mutate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

static void check(const hil_deepspeed_number *number, double low, double high)
{
    assert(number->origin != HIL_DEEPSPEED_GIVEN ||
           (number->value >= low && number->value <= high));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_deepspeed_config c = {.size = sizeof c};
    hil_deepspeed_batches b;
    if (hil_deepspeed_parse((const char *)bytes, size, "input", &c) != HIL_OK) {
        assert(*hil_status_message());
        return 0;
    }
    check(&c.batch, 1, 1e9);
    check(&c.beta1, 0, 1);
    check(&c.stage, 0, 3);
    assert(c.disks <= 2 && c.loss_scale.start >= c.loss_scale.least && strlen(c.notes) < 1 << 20);
    for (int64_t ranks = 1; ranks < 4; ++ranks)
        if (hil_deepspeed_complete(&c, ranks, &b) == HIL_OK && b.batch && b.accumulation)
            assert(b.batch == b.micro_batch * b.accumulation * ranks);
    hil_curve curve = hil_deepspeed_curve(&c, 1, 10);
    for (int64_t update = 1; update < 20; ++update) (void)hil_curve_rate(&curve, 15, update);
    hil_deepspeed_free(&c);
    return 0;
}
