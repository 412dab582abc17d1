/* occupancy.c -- see occupancy.h. Granularities are those of NVIDIA's programming guide for compute
 * capability 7 and later. */
#include "device/cuda/occupancy.h"

#include "base/common.h"

#define WARP_REGISTER_UNIT 256 /* registers are handed out to warps in such pieces */
#define SM_PARTITIONS 4        /* each has its share of the registers */
#define SHARED_UNIT 128        /* bytes */
#define SHARED_RESERVED 1024   /* of each block, for the system, from compute capability 8 on */

static uint64_t round_up(uint64_t v, uint64_t unit)
{
    return (v + unit - 1) / unit * unit;
}

static uint64_t blocks_by_registers(const struct cupti_device *d, const struct cupti_kernel *k,
                                    uint64_t warps)
{
    uint64_t of_warp =
        round_up((uint64_t)k->registers_per_thread * d->warp_threads, WARP_REGISTER_UNIT);
    uint64_t of_partition = d->sm_registers / SM_PARTITIONS;

    return of_warp ? of_partition / of_warp * SM_PARTITIONS / warps : UINT64_MAX;
}

static uint64_t blocks_by_shared_memory(const struct cupti_device *d, const struct cupti_kernel *k)
{
    uint64_t own =
        (uint64_t)MAX(k->static_shared_memory, 0) + (uint64_t)MAX(k->dynamic_shared_memory, 0);
    uint64_t bytes = round_up(own + (d->major >= 8 ? SHARED_RESERVED : 0), SHARED_UNIT);

    return bytes ? d->sm_shared_memory / bytes : UINT64_MAX;
}

int occupancy_of(const struct cupti_device *d, const struct cupti_kernel *k, struct occupancy *out)
{
    uint64_t threads = 1, grid = 1, warps, blocks;

    for (int i = 0; i < 3; i++) {
        threads *= (uint64_t)MAX(k->block[i], 1);
        grid *= (uint64_t)MAX(k->grid[i], 1);
    }
    if (!d || !d->sms || !d->warp_threads || !d->sm_warps || threads > 1024)
        return 0;
    warps = (threads + d->warp_threads - 1) / d->warp_threads;
    blocks = d->sm_warps / warps;
    blocks = MIN(blocks, blocks_by_registers(d, k, warps));
    blocks = MIN(blocks, blocks_by_shared_memory(d, k));
    if (d->sm_blocks)
        blocks = MIN(blocks, (uint64_t)d->sm_blocks);
    out->blocks_per_sm = (double)grid / d->sms;
    out->warps_per_sm = out->blocks_per_sm * (double)warps;
    out->theoretical = (double)(blocks * warps) / d->sm_warps;
    out->achieved = MIN((double)blocks, out->blocks_per_sm) * (double)warps / d->sm_warps;
    return 1;
}
