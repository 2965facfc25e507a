/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The keyboard controller, its two silent devices, and port 92h. */
#include "platform/i8042.h"

#include <string.h>

enum i8042_status {
    I8042_STATUS_OUTPUT = 1u << 0, /* a byte waits at port 60h */
    I8042_STATUS_SYSTEM = 1u << 2,
    I8042_STATUS_UNLOCKED = 1u << 4,
    I8042_STATUS_MOUSE = 1u << 5, /* and it is the mouse's */
};

enum i8042_command_byte {
    I8042_BYTE_INTERRUPT = 1u << 0, /* shifted left by one for the mouse */
    I8042_BYTE_SYSTEM = 1u << 2,
    I8042_BYTE_KEYBOARD_OFF = 1u << 4,
    I8042_BYTE_MOUSE_OFF = 1u << 5,
    I8042_BYTE_TRANSLATE = 1u << 6,
    I8042_BYTE_RESET = 0x47,
};

enum i8042_command {
    I8042_COMMAND_READ_BYTE = 0x20,
    I8042_COMMAND_WRITE_BYTE = 0x60,
    I8042_COMMAND_MOUSE_OFF = 0xa7,
    I8042_COMMAND_MOUSE_ON = 0xa8,
    I8042_COMMAND_MOUSE_TEST = 0xa9,
    I8042_COMMAND_SELF_TEST = 0xaa,
    I8042_COMMAND_KEYBOARD_TEST = 0xab,
    I8042_COMMAND_KEYBOARD_OFF = 0xad,
    I8042_COMMAND_KEYBOARD_ON = 0xae,
    I8042_COMMAND_READ_OUTPUT = 0xd0,
    I8042_COMMAND_WRITE_OUTPUT = 0xd1,
    I8042_COMMAND_FEED_KEYBOARD = 0xd2, /* the next byte comes back as if from the device */
    I8042_COMMAND_FEED_MOUSE = 0xd3,
    I8042_COMMAND_TO_MOUSE = 0xd4,
    I8042_COMMAND_PULSE = 0xf0, /* the low four bits, when 0, pulse those of the output port */
};

enum i8042_output_port {
    I8042_OUTPUT_RUN = 1u << 0, /* 0 resets the processor */
    I8042_OUTPUT_A20 = 1u << 1,
    I8042_OUTPUT_RESET = 0xcf,
};

enum i8042_port92 {
    I8042_PORT92_RESET = 1u << 0, /* its rising edge resets the processor */
    I8042_PORT92_A20 = 1u << 1,
};

/* What the devices say and are told; the mouse's set is the keyboard's with other middle. */
enum i8042_device {
    I8042_DEVICE_STATUS = 0xe9, /* mouse: three bytes of status */
    I8042_DEVICE_READ = 0xeb,   /* mouse: a packet now */
    I8042_DEVICE_RATE_MOUSE = 0xe8,
    I8042_DEVICE_LEDS = 0xed,
    I8042_DEVICE_ECHO = 0xee,
    I8042_DEVICE_SCAN_CODES = 0xf0,
    I8042_DEVICE_IDENTIFY = 0xf2,
    I8042_DEVICE_RATE = 0xf3,
    I8042_DEVICE_RESEND = 0xfe,
    I8042_DEVICE_RESET = 0xff,
    I8042_DEVICE_TESTED = 0xaa,
    I8042_DEVICE_ACKNOWLEDGE = 0xfa,
};

/* The wires follow the output buffer's first byte: low between two of them. */
static void i8042_drive_locked(struct hv_i8042 *i8042) HV_REQUIRES(&i8042->lock)
{
    hv_irq_line_set(&i8042->irq[HV_I8042_KEYBOARD], false);
    hv_irq_line_set(&i8042->irq[HV_I8042_MOUSE], false);
    if (i8042->count > 0 && (i8042->command_byte & I8042_BYTE_INTERRUPT << i8042->source[0])) {
        hv_irq_line_set(&i8042->irq[i8042->source[0]], true);
    }
}

/* A full queue loses the byte, as a device that is not read does. */
static void i8042_answer_locked(struct hv_i8042 *i8042, enum hv_i8042_source source, uint8_t byte)
    HV_REQUIRES(&i8042->lock)
{
    if (i8042->count == HV_I8042_QUEUE) {
        return;
    }
    i8042->byte[i8042->count] = byte;
    i8042->source[i8042->count] = (uint8_t)source;
    i8042->count++;
    if (i8042->count == 1) {
        i8042_drive_locked(i8042);
    }
}

static uint8_t i8042_take_locked(struct hv_i8042 *i8042) HV_REQUIRES(&i8042->lock)
{
    if (i8042->count > 0) {
        i8042->last = i8042->byte[0];
        i8042->count--;
        memmove(&i8042->byte[0], &i8042->byte[1], i8042->count);
        memmove(&i8042->source[0], &i8042->source[1], i8042->count);
        i8042_drive_locked(i8042);
    }
    return i8042->last;
}

static void i8042_keyboard_identify_locked(struct hv_i8042 *i8042) HV_REQUIRES(&i8042->lock)
{
    i8042_answer_locked(i8042, HV_I8042_KEYBOARD, 0xab);
    i8042_answer_locked(i8042, HV_I8042_KEYBOARD,
                        i8042->command_byte & I8042_BYTE_TRANSLATE ? 0x41 : 0x83);
}

static void i8042_mouse_report_locked(struct hv_i8042 *i8042, uint8_t first, uint8_t second,
                                      uint8_t third) HV_REQUIRES(&i8042->lock)
{
    i8042_answer_locked(i8042, HV_I8042_MOUSE, first);
    i8042_answer_locked(i8042, HV_I8042_MOUSE, second);
    i8042_answer_locked(i8042, HV_I8042_MOUSE, third);
}

/* The byte that a device's command waited for. */
static void i8042_parameter_locked(struct hv_i8042 *i8042, enum hv_i8042_source source,
                                   uint8_t byte) HV_REQUIRES(&i8042->lock)
{
    uint8_t command = i8042->parameter[source];

    i8042->parameter[source] = 0;
    i8042_answer_locked(i8042, source, I8042_DEVICE_ACKNOWLEDGE);
    if (source == HV_I8042_KEYBOARD && command == I8042_DEVICE_SCAN_CODES && byte == 0) {
        /* Which set is it? The second; translated, 41h. */
        i8042_answer_locked(i8042, source,
                            i8042->command_byte & I8042_BYTE_TRANSLATE ? 0x41 : 0x02);
    }
}

static bool i8042_wants_parameter(enum hv_i8042_source source, uint8_t command)
{
    if (source == HV_I8042_KEYBOARD) {
        return command == I8042_DEVICE_LEDS || command == I8042_DEVICE_SCAN_CODES ||
               command == I8042_DEVICE_RATE;
    }
    return command == I8042_DEVICE_RATE_MOUSE || command == I8042_DEVICE_RATE;
}

/* A byte for a device: everything is acknowledged, what asks is answered, nothing else happens. */
static void i8042_device_locked(struct hv_i8042 *i8042, enum hv_i8042_source source, uint8_t byte)
    HV_REQUIRES(&i8042->lock)
{
    if (i8042->parameter[source]) {
        i8042_parameter_locked(i8042, source, byte);
        return;
    }
    if (byte < 0xe6 || byte == I8042_DEVICE_RESEND) {
        i8042_answer_locked(i8042, source, I8042_DEVICE_RESEND);
        return;
    }
    if (source == HV_I8042_KEYBOARD && byte == I8042_DEVICE_ECHO) {
        i8042_answer_locked(i8042, source, I8042_DEVICE_ECHO);
        return;
    }
    i8042_answer_locked(i8042, source, I8042_DEVICE_ACKNOWLEDGE);
    if (i8042_wants_parameter(source, byte)) {
        i8042->parameter[source] = byte;
    } else if (byte == I8042_DEVICE_RESET) {
        i8042_answer_locked(i8042, source, I8042_DEVICE_TESTED);
        if (source == HV_I8042_MOUSE) {
            i8042_answer_locked(i8042, source, 0x00);
        }
    } else if (byte == I8042_DEVICE_IDENTIFY && source == HV_I8042_KEYBOARD) {
        i8042_keyboard_identify_locked(i8042);
    } else if (byte == I8042_DEVICE_IDENTIFY) {
        i8042_answer_locked(i8042, source, 0x00); /* a mouse with two or three buttons */
    } else if (byte == I8042_DEVICE_STATUS && source == HV_I8042_MOUSE) {
        i8042_mouse_report_locked(i8042, 0x00, 0x02, 0x64); /* off; 4 counts/mm; 100 a second */
    } else if (byte == I8042_DEVICE_READ && source == HV_I8042_MOUSE) {
        i8042_mouse_report_locked(i8042, 0x08, 0x00, 0x00); /* nothing pressed, nothing moved */
    }
}

/* Returns whether the machine is to be reset. */
static bool i8042_output_locked(struct hv_i8042 *i8042, uint8_t value) HV_REQUIRES(&i8042->lock)
{
    i8042->output_port = value | I8042_OUTPUT_RUN;
    return !(value & I8042_OUTPUT_RUN);
}

/* A write to port 60h: for the controller command that waits, or for the keyboard. */
static bool i8042_data_locked(struct hv_i8042 *i8042, uint8_t byte) HV_REQUIRES(&i8042->lock)
{
    uint8_t command = i8042->command;

    i8042->command = 0;
    switch (command) {
    case 0:
        i8042_device_locked(i8042, HV_I8042_KEYBOARD, byte);
        return false;
    case I8042_COMMAND_WRITE_BYTE:
        i8042->command_byte = byte;
        i8042_drive_locked(i8042);
        return false;
    case I8042_COMMAND_WRITE_OUTPUT:
        return i8042_output_locked(i8042, byte);
    case I8042_COMMAND_FEED_KEYBOARD:
        i8042_answer_locked(i8042, HV_I8042_KEYBOARD, byte);
        return false;
    case I8042_COMMAND_FEED_MOUSE:
        i8042_answer_locked(i8042, HV_I8042_MOUSE, byte);
        return false;
    case I8042_COMMAND_TO_MOUSE:
        i8042_device_locked(i8042, HV_I8042_MOUSE, byte);
        return false;
    default: /* the controller's other memory: nobody reads it */
        return false;
    }
}

/* A write to port 64h. Returns whether the machine is to be reset. */
static bool i8042_command_locked(struct hv_i8042 *i8042, uint8_t byte) HV_REQUIRES(&i8042->lock)
{
    i8042->command = 0;
    if (byte >= I8042_COMMAND_PULSE) {
        return !(byte & I8042_OUTPUT_RUN);
    }
    switch (byte) {
    case I8042_COMMAND_READ_BYTE:
        i8042_answer_locked(i8042, HV_I8042_KEYBOARD, i8042->command_byte);
        break;
    case I8042_COMMAND_MOUSE_OFF:
        i8042->command_byte |= I8042_BYTE_MOUSE_OFF;
        break;
    case I8042_COMMAND_MOUSE_ON:
        i8042->command_byte &= (uint8_t)~I8042_BYTE_MOUSE_OFF;
        break;
    case I8042_COMMAND_KEYBOARD_OFF:
        i8042->command_byte |= I8042_BYTE_KEYBOARD_OFF;
        break;
    case I8042_COMMAND_KEYBOARD_ON:
        i8042->command_byte &= (uint8_t)~I8042_BYTE_KEYBOARD_OFF;
        break;
    case I8042_COMMAND_MOUSE_TEST:
    case I8042_COMMAND_KEYBOARD_TEST:
        i8042_answer_locked(i8042, HV_I8042_KEYBOARD, 0x00);
        break;
    case I8042_COMMAND_SELF_TEST:
        i8042->count = 0;
        i8042->command_byte |= I8042_BYTE_SYSTEM;
        i8042_answer_locked(i8042, HV_I8042_KEYBOARD, 0x55);
        break;
    case I8042_COMMAND_READ_OUTPUT:
        i8042_answer_locked(i8042, HV_I8042_KEYBOARD, i8042->output_port);
        break;
    default:
        if ((byte >= I8042_COMMAND_WRITE_BYTE && byte < 0x80) ||
            (byte >= I8042_COMMAND_WRITE_OUTPUT && byte <= I8042_COMMAND_TO_MOUSE)) {
            i8042->command = byte;
        }
        break;
    }
    return false;
}

/* Port 64h. */
static uint8_t i8042_status_locked(struct hv_i8042 *i8042) HV_REQUIRES(&i8042->lock)
{
    unsigned status = I8042_STATUS_UNLOCKED | (i8042->command_byte & I8042_STATUS_SYSTEM);

    if (i8042->count > 0) {
        status |= I8042_STATUS_OUTPUT;
        status |= i8042->source[0] == HV_I8042_MOUSE ? I8042_STATUS_MOUSE : 0u;
    }
    return (uint8_t)status;
}

static uint8_t i8042_port92_locked(struct hv_i8042 *i8042) HV_REQUIRES(&i8042->lock)
{
    return i8042->port92;
}

/*
 * Address line 20 is always on; the bit is kept for those who look whether it is. Returns whether
 * the machine is to be reset.
 */
static bool i8042_set_port92_locked(struct hv_i8042 *i8042, uint8_t value) HV_REQUIRES(&i8042->lock)
{
    bool rises = (value & I8042_PORT92_RESET) && !(i8042->port92 & I8042_PORT92_RESET);

    i8042->port92 = value & (I8042_PORT92_RESET | I8042_PORT92_A20);
    return rises;
}

static int i8042_read(struct hv_i8042 *i8042, uint8_t (*read_locked)(struct hv_i8042 *i8042),
                      uint64_t *value_out)
{
    hv_lock_take(&i8042->lock);
    *value_out = read_locked(i8042);
    hv_lock_drop(&i8042->lock);
    return 0;
}

/* The hook belongs to an upper floor: not under the lock. */
static int i8042_write(struct hv_i8042 *i8042,
                       bool (*write_locked)(struct hv_i8042 *i8042, uint8_t byte), uint64_t value)
{
    bool reset;

    hv_lock_take(&i8042->lock);
    reset = write_locked(i8042, (uint8_t)value);
    hv_lock_drop(&i8042->lock);
    if (reset) {
        i8042->reset(i8042->reset_context);
    }
    return 0;
}

static int i8042_data_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                           uint64_t *value_out)
{
    (void)vcpu;
    (void)offset;
    (void)bytes;
    return i8042_read(context, i8042_take_locked, value_out);
}

static int i8042_status_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                             uint64_t *value_out)
{
    (void)vcpu;
    (void)offset;
    (void)bytes;
    return i8042_read(context, i8042_status_locked, value_out);
}

static int i8042_port92_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                             uint64_t *value_out)
{
    (void)vcpu;
    (void)offset;
    (void)bytes;
    return i8042_read(context, i8042_port92_locked, value_out);
}

static int i8042_data_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                            uint64_t value)
{
    (void)vcpu;
    (void)offset;
    (void)bytes;
    return i8042_write(context, i8042_data_locked, value);
}

static int i8042_command_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                               uint64_t value)
{
    (void)vcpu;
    (void)offset;
    (void)bytes;
    return i8042_write(context, i8042_command_locked, value);
}

static int i8042_port92_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                              uint64_t value)
{
    (void)vcpu;
    (void)offset;
    (void)bytes;
    return i8042_write(context, i8042_set_port92_locked, value);
}

static const struct hv_bus_ops i8042_data_ops = {i8042_data_read, i8042_data_write};
static const struct hv_bus_ops i8042_command_ops = {i8042_status_read, i8042_command_write};
static const struct hv_bus_ops i8042_port92_ops = {i8042_port92_read, i8042_port92_write};

int hv_i8042_init(struct hv_i8042 *i8042, struct hv_bus *bus, const struct hv_irq_line irq[2],
                  void (*reset)(void *context), void *reset_context)
{
    const struct hv_bus_range ranges[] = {
        {0x60, 1, &i8042_data_ops, i8042, "i8042.data", 1},
        {0x64, 1, &i8042_command_ops, i8042, "i8042.command", 1},
        {0x92, 1, &i8042_port92_ops, i8042, "port92", 1},
    };

    memset(i8042, 0, sizeof(*i8042));
    hv_lock_init(&i8042->lock, HV_RANK_DEVICE, "platform.i8042", 0);
    i8042->irq[HV_I8042_KEYBOARD] = irq[HV_I8042_KEYBOARD];
    i8042->irq[HV_I8042_MOUSE] = irq[HV_I8042_MOUSE];
    i8042->reset = reset;
    i8042->reset_context = reset_context;
    hv_i8042_reset(i8042);
    return hv_bus_add_all(bus, HV_BUS_PORT, ranges, HV_ARRAY_LEN(ranges));
}

void hv_i8042_finish(struct hv_i8042 *i8042)
{
    hv_lock_finish(&i8042->lock);
}

void hv_i8042_reset(struct hv_i8042 *i8042)
{
    hv_lock_take(&i8042->lock);
    i8042->command_byte = I8042_BYTE_RESET;
    i8042->output_port = I8042_OUTPUT_RESET;
    i8042->port92 = I8042_PORT92_A20;
    i8042->command = 0;
    memset(i8042->parameter, 0, sizeof(i8042->parameter));
    i8042->last = 0;
    i8042->count = 0;
    i8042_drive_locked(i8042);
    hv_lock_drop(&i8042->lock);
}

void hv_i8042_save(struct hv_i8042 *i8042, struct hv_i8042_record *record_out)
{
    memset(record_out, 0, sizeof(*record_out));
    hv_lock_take(&i8042->lock);
    record_out->version = HV_I8042_RECORD_VERSION;
    record_out->command_byte = i8042->command_byte;
    record_out->output_port = i8042->output_port;
    record_out->port92 = i8042->port92;
    record_out->command = i8042->command;
    memcpy(record_out->parameter, i8042->parameter, sizeof(i8042->parameter));
    record_out->last = i8042->last;
    record_out->count = i8042->count;
    memcpy(record_out->byte, i8042->byte, i8042->count);
    memcpy(record_out->source, i8042->source, i8042->count);
    hv_lock_drop(&i8042->lock);
}

const char *hv_i8042_check(const struct hv_i8042_record *record)
{
    if (record->version != HV_I8042_RECORD_VERSION) {
        return "i8042.version";
    }
    if (!(record->output_port & I8042_OUTPUT_RUN)) {
        return "i8042.output_port";
    }
    if (record->port92 & ~(I8042_PORT92_RESET | I8042_PORT92_A20)) {
        return "i8042.port92";
    }
    if (record->count > HV_I8042_QUEUE) {
        return "i8042.count";
    }
    for (unsigned i = 0; i < record->count; i++) {
        if (record->source[i] > HV_I8042_MOUSE) {
            return "i8042.source";
        }
    }
    return NULL;
}

void hv_i8042_load(struct hv_i8042 *i8042, const struct hv_i8042_record *record)
{
    hv_lock_take(&i8042->lock);
    i8042->command_byte = record->command_byte;
    i8042->output_port = record->output_port;
    i8042->port92 = record->port92;
    i8042->command = record->command;
    memcpy(i8042->parameter, record->parameter, sizeof(i8042->parameter));
    i8042->last = record->last;
    i8042->count = record->count;
    memcpy(i8042->byte, record->byte, record->count);
    memcpy(i8042->source, record->source, record->count);
    hv_lock_drop(&i8042->lock);
}
