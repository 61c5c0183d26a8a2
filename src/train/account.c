/* account.c - memory peaks, bytes moved and stalls of a step. */
#include "train/account.h"

#include "plan/plan_report.h"

static void raise_to(uint64_t *peak, uint64_t other)
{
    if (*peak < other) *peak = other;
}

void hil_account_add(hil_step_account *all, const hil_step_account *step)
{
    raise_to(&all->device_peak, step->device_peak);
    raise_to(&all->host_peak, step->host_peak);
    raise_to(&all->disk_peak, step->disk_peak);
    all->disk_read_bytes += step->disk_read_bytes;
    all->disk_written_bytes += step->disk_written_bytes;
    all->to_device_bytes += step->to_device_bytes;
    all->to_host_bytes += step->to_host_bytes;
    all->gathered_bytes += step->gathered_bytes;
    all->reduced_bytes += step->reduced_bytes;
    all->wait_seconds.weights += step->wait_seconds.weights;
    all->wait_seconds.update += step->wait_seconds.update;
    all->wait_seconds.activations += step->wait_seconds.activations;
    all->wait_seconds.gradients += step->wait_seconds.gradients;
    all->wait_seconds.memory += step->wait_seconds.memory;
    all->exposed_update_seconds += step->exposed_update_seconds;
    all->skipped_bytes += step->skipped_bytes;
}

void hil_account_take(hil_links *links, hil_step_account *out, hil_plan *spent)
{
    hil_account account;
    hil_links_take_account(links, &account);
    const double *wait = account.wait;
    hil_step_account taken = {
        .disk_read_bytes = account.disk_read,
        .disk_written_bytes = account.disk_written,
        .to_device_bytes = account.to_device,
        .to_host_bytes = account.to_host,
        .gathered_bytes = account.bytes[HIL_LINK_GATHER],
        .reduced_bytes = account.bytes[HIL_LINK_REDUCE],
        .wait_seconds = hil_plan_waits(wait),
        .exposed_update_seconds = wait[HIL_WAIT_UPDATE],
    };
    hil_account_add(out, &taken);
    spent->disk_read += account.disk_read;
    spent->disk_written += account.disk_written;
    for (int i = 0; i < HIL_WAITS; ++i) spent->wait[i] += wait[i];
    for (int i = 0; i < HIL_LINKS; ++i) spent->busy[i] += account.busy[i];
}

void hil_account_skip(hil_links *links, hil_plan *spent)
{
    hil_account account;
    hil_links_take_account(links, &account);
    for (int i = 0; i < HIL_LINKS; ++i) spent->busy[i] += account.busy[i];
}
