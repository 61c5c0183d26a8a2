/* fit_error.c - what does not fit, and the message that says why no plan does. */
#include "plan/candidate.h"

#include "base/text.h"

#include <stdio.h>

enum { WHOM = 40 }; /* bytes of "each of N ranks" */

/* Disk bytes of tensors, and of sums that are spilled there for certain. */
static uint64_t beside_states(const hil_choice *c)
{
    uint64_t tensors = c->needs[c->at.group > 1][c->at.tier][c->at.level].disk;
    bool spills = c->trial.spill == HIL_DISK && hil_plan_spills_all(&c->trial, c->outline);
    return tensors + (spills ? hil_plan_sums(c->outline) : 0);
}

uint64_t hil_choice_missing(hil_choice *c, uint64_t states)
{
    const hil_budget *b = &c->planner->budget;
    uint64_t need[HIL_TIERS], beside = beside_states(c), missing = states;
    hil_plan_needs(&c->trial, c->outline, need);
    uint64_t room = b->disk > need[HIL_DISK] ? b->disk - need[HIL_DISK] : 0;
    if (b->disk && beside > room) missing += beside - room;
    if (!missing || missing >= c->missing) return missing;
    c->missing = missing;
    c->lacking_host = b->disk && beside <= room && need[HIL_DISK] <= b->disk ? need[HIL_HOST] : 0;
    c->beside = b->disk && beside > room ? beside : 0;
    return missing;
}

static hil_status stage_too_large(const hil_choice *c)
{
    char least[32], device[32];
    return hil_fail(HIL_ERR_BUDGET,
                    "--zero %d keeps all weights%s in the device memory of every rank and needs at "
                    "least %s of it, but a rank may use %s: take --zero 3, or give more "
                    "--device-memory",
                    c->zero, c->zero == 1 ? " and all gradient sums" : "",
                    hil_text_bytes(least, c->least),
                    hil_text_bytes(device, c->planner->budget.device));
}

/* Subject of a message about budgets, which are those of one rank: `alone` or "each of N ranks". */
static const char *whom_of(const hil_choice *c, char text[WHOM], const char *alone,
                           const char *before)
{
    if (hil_choice_alone(c)) return alone;
    snprintf(text, WHOM, "%seach of %d ranks", before, hil_outline_ranks(c->outline));
    return text;
}

/* All states fit, but the device lacks room for tensors and window. */
static hil_status device_too_small(const hil_choice *c)
{
    const hil_budget *b = &c->planner->budget;
    bool training = c->outline->training;
    char least[32], working[32], device[32], whom[WHOM];
    const char *what = training ? "a micro-batch" : "the tokens computed at once";
    const char *less =
        training ? "a smaller --micro-batch, --seq or --tile-size" : "compute fewer tokens at once";
    hil_text_bytes(working, c->working);
    hil_text_bytes(device, b->device);
    if (c->least <= b->device)
        return hil_fail(HIL_ERR_BUDGET,
                        "computing needs a little more device memory than the %s that %s may use "
                        "(%s for the activations of %s): give more --device-memory%s, or %s",
                        device, whom_of(c, whom, "it", ""), working, what,
                        b->disk ? "" : " or --host-memory", less);
    return hil_fail(HIL_ERR_BUDGET,
                    "computing needs at least %s of device memory (%s of it for the activations "
                    "of %s), but %s may use %s: give more --device-memory, or %s",
                    hil_text_bytes(least, c->least), working, what, whom_of(c, whom, "it", ""),
                    device, less);
}

hil_status hil_choice_refuse(const hil_choice *c)
{
    const hil_budget *b = &c->planner->budget;
    const char *share = hil_choice_alone(c) ? "" : " (a machine's, which its ranks divide)";
    char whom[WHOM];
    char missing[32], states[32], device[32], host[32], disk[32], beside[32];
    if (c->least > b->device && c->zero < 3) return stage_too_large(c);
    if (c->least > b->device || c->missing == UINT64_MAX) return device_too_small(c);
    hil_text_bytes(missing, c->missing);
    hil_text_bytes(states, c->states);
    hil_text_bytes(device, b->device);
    hil_text_bytes(host, b->host + c->planner->tokens);
    if (c->lacking_host)
        return hil_fail(HIL_ERR_BUDGET,
                        "transfers between disk and device need at least %s of host memory, but %s "
                        "may use %s: give more --host-memory%s",
                        hil_text_bytes(disk, c->lacking_host + c->planner->tokens),
                        whom_of(c, whom, "it", ""), host, share);
    if (c->beside)
        return hil_fail(
            HIL_ERR_BUDGET,
            "%s of disk are missing%s: beside the weights, gradients and optimizer states (%s) "
            "that do not fit in %s of device and %s of host memory, %s of gradient sums and "
            "activations go to the disk, which has %s: give a larger --disk or another one, or "
            "more --host-memory%s",
            missing, whom_of(c, whom, "", " on "), states, device, host,
            hil_text_bytes(beside, c->beside), hil_text_bytes(disk, b->disk), share);
    if (b->disk == 0)
        return hil_fail(
            HIL_ERR_BUDGET,
            "%s are missing%s: %s of weights, gradients and optimizer states do not fit beside "
            "the activations in %s of device and %s of host memory: give more --host-memory%s, or "
            "--disk PATH",
            missing, whom_of(c, whom, "", " on "), states, device, host, share);
    return hil_fail(
        HIL_ERR_BUDGET,
        "%s are missing%s: %s of weights, gradients and optimizer states do not fit beside the "
        "activations in %s of device memory, %s of host memory and %s of disk: give another "
        "--disk, or more --host-memory%s",
        missing, whom_of(c, whom, "", " on "), states, device, host, hil_text_bytes(disk, b->disk),
        share);
}
