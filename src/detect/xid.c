// SPDX-License-Identifier: Apache-2.0
#include "detect/xid.h"

#include <stddef.h>

static const char debug[] = "Run the program under compute-sanitizer, or once with CUDA_LAUNCH_BLOCKING=1, to find the "
                            "kernel; the GPU is sound.";
static const char restart[] = "Restart the job; if the code comes back on this GPU alone, have the board checked.";
static const char reset[] = "Drain the GPU's jobs and reset it (nvidia-smi -r); if it comes back, have the board checked.";
static const char service[] = "Take the GPU out of service and have the board checked or replaced.";
static const char nvlink[] = "See the fabric manager's log and nvidia-smi nvlink -s; follow the recovery action in "
                             "nvidia-smi -q. A reset of the GPUs retrains the links.";
static const char firmware[] = "Drain and reset the GPU; if it comes back, update driver and firmware or file a report "
                               "with nvidia-bug-report.sh.";

#define APP AL_XID_APPLICATION
#define HW AL_XID_HARDWARE
#define LINK AL_XID_LINK
#define DRIVER AL_XID_DRIVER
#define FOLLOWS AL_XID_FOLLOWS
#define INFO AL_LEVEL_INFO
#define WARN AL_LEVEL_WARNING
#define CRIT AL_LEVEL_CRITICAL

static const struct al_xid_info table[] = {
    {8, DRIVER, WARN, "a channel made no progress and was stopped", restart},
    {11, APP, WARN, "a command stream was not valid", restart},
    {13, APP, WARN, "a kernel raised an exception, such as an access out of range or an illegal instruction", debug},
    {31, APP, WARN, "a kernel or copy touched an address that is not mapped", debug},
    {32, DRIVER, WARN, "a command stream arrived damaged, which can also come from a bad PCIe link", restart},
    {38, DRIVER, WARN, "the driver's firmware reported an error", firmware},
    {43, APP, WARN, "a channel was stopped after the program's own fault", debug},
    {44, DRIVER, WARN, "an engine failed while it switched contexts", restart},
    {45, FOLLOWS, INFO, "channels were cleaned up, after an earlier error or because the process ended",
     "Look for an earlier Xid or for what ended the process; by itself it needs no action."},
    {46, DRIVER, WARN, "the GPU stopped processing commands", restart},
    {48, HW, CRIT, "an uncorrectable (double-bit) memory error", "Restart what ran on it and reset the GPU, so that the "
     "bad row is remapped; see remapped rows and the SRAM threshold in nvidia-smi -q."},
    {61, DRIVER, CRIT, "the power controller's firmware hit a breakpoint", reset},
    {62, HW, CRIT, "the power controller halted", reset},
    {63, HW, INFO, "a bad memory row or page was recorded for replacement, as it should be",
     "No hurry: it takes effect at the next reset of the GPU."},
    {64, HW, CRIT, "a bad memory row or page could not be recorded for replacement", service},
    {68, DRIVER, WARN, "the video decoder failed", restart},
    {69, APP, WARN, "an engine refused a command of the program", debug},
    {74, LINK, WARN, "an NVLink connection reported an error", nvlink},
    {79, HW, CRIT, "the driver can no longer reach the GPU over PCIe (fallen off the bus)",
     "Restart the machine. If it comes back on the same board, check power cables, riser and temperature before the "
     "board itself."},
    {92, HW, INFO, "corrected memory errors come at a high rate", "Watch it; have the board checked if it persists."},
    {93, HW, INFO, "the board's settings memory was written more often than planned", "No action."},
    {94, HW, WARN, "a memory error was contained: only the program that used the memory is affected",
     "Restart that job; the others may go on. The row is remapped at the next reset."},
    {95, HW, CRIT, "a memory error was not contained: any program on the GPU may be affected", reset},
    {108, APP, WARN, "a peer access over NVLink could not be translated", debug},
    {109, DRIVER, CRIT, "switching contexts took too long", reset},
    {110, HW, CRIT, "a security fault", service},
    {119, DRIVER, CRIT, "the GPU's system processor (GSP) did not answer the driver in time", firmware},
    {120, DRIVER, CRIT, "the firmware of the GPU's system processor (GSP) failed", firmware},
    {121, LINK, INFO, "corrected errors on the link to the CPU (C2C)", "No hurry: a reset retrains the link."},
    {122, DRIVER, WARN, "reading the board's flash failed", firmware},
    {123, DRIVER, WARN, "writing the board's flash failed", firmware},
    {124, DRIVER, WARN, "erasing the board's flash failed", firmware},
    {125, DRIVER, WARN, "the file system of the board's settings memory (infoROM) failed", firmware},
    {136, LINK, CRIT, "an NVLink connection could not be trained", reset},
    {137, APP, WARN, "a peer access over NVLink was refused by the other GPU", debug},
    {138, DRIVER, WARN, "a deep-learning accelerator engine failed", restart},
    {139, DRIVER, WARN, "an optical-flow engine failed", restart},
    {140, HW, CRIT, "an uncorrectable memory error kept the driver from setting the page aside", reset},
    {141, DRIVER, INFO, "CUDA's fast path failed", restart},
    {143, HW, CRIT, "the GPU could not be initialised", reset},
    {144, LINK, WARN, "NVLink error (SAW unit)", nvlink},
    {145, LINK, WARN, "NVLink error (RLW unit)", nvlink},
    {146, LINK, WARN, "NVLink error (TLW unit)", nvlink},
    {147, LINK, WARN, "NVLink error (TREX unit)", nvlink},
    {148, LINK, WARN, "NVLink error (power control)", nvlink},
    {149, LINK, WARN, "NVLink error (network interface, a link may have gone down)", nvlink},
    {150, LINK, CRIT, "NVLink error (management engine)", nvlink},
    {151, DRIVER, WARN, "rotating the keys of confidential computing failed", "Restart the virtual machine."},
    {154, FOLLOWS, WARN, "the driver changed the recovery action that it asks for",
     "Do what \"GPU Recovery Action\" in nvidia-smi -q says: none, drain, reset or reboot."},
    {155, LINK, WARN, "an NVLink connection was taken down by software", nvlink},
    {156, HW, WARN, "a faulty part of the GPU was retired", reset},
    {157, HW, WARN, "a faulty part of the GPU could not be retired: no spare is left", service},
    {158, HW, CRIT, "the GPU did not answer for too long", reset},
    {167, HW, CRIT, "a PCIe transfer timed out for good", reset},
    {168, HW, WARN, "the GPU runs with less memory after errors in a protected region", "Switch ECC on, or restart."},
    {171, FOLLOWS, CRIT, "the uncorrectable error of Xid 48 was in device memory (DRAM)", reset},
    {172, FOLLOWS, CRIT, "the uncorrectable error of Xid 48 was in on-chip memory (SRAM)", reset},
};

static const struct al_xid_info unknown = {0, AL_XID_DRIVER, AL_LEVEL_WARNING, "a code that alula has no words for",
                                           "Look it up in NVIDIA's Xid catalog."};

const struct al_xid_info *al_xid_info(uint32_t code)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code)
            return &table[i];
    return &unknown;
}

const char *al_xid_class_word(enum al_xid_class c)
{
    static const char *const words[] = {"application fault", "hardware fault", "link fault", "driver or firmware fault",
                                        "follows another event"};
    return words[c];
}

const struct al_xid_info *al_xid_table(uint32_t *ret_count)
{
    *ret_count = sizeof table / sizeof *table;
    return table;
}
