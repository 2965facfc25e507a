/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A node a bar, in the colour of the text around it. */
#include "app/widgets/sparkline.h"

#include "common/i18n.h"

#define WIDTH_PX  48
#define HEIGHT_PX 24

struct _LodgeSparkline {
    GtkWidget parent_instance;
    LodgeMachineItem *machine;
    gulong sampled;
};

G_DEFINE_FINAL_TYPE(LodgeSparkline, lodge_sparkline, GTK_TYPE_WIDGET)

static void on_sampled(LodgeMachineItem *machine, LodgeSparkline *sparkline)
{
    g_autofree char *label =
        g_strdup_printf(_("CPU %.0f %%"), lodge_machine_item_get_cpu(machine) * 100);

    gtk_accessible_update_property(GTK_ACCESSIBLE(sparkline), GTK_ACCESSIBLE_PROPERTY_LABEL, label,
                                   -1);
    if (gtk_widget_get_mapped(GTK_WIDGET(sparkline))) {
        gtk_widget_queue_draw(GTK_WIDGET(sparkline));
    }
}

void lodge_sparkline_set_machine(LodgeSparkline *sparkline, LodgeMachineItem *machine)
{
    g_return_if_fail(LODGE_IS_SPARKLINE(sparkline));

    if (sparkline->machine) {
        g_clear_signal_handler(&sparkline->sampled, sparkline->machine);
    }
    g_set_object(&sparkline->machine, machine);
    if (machine) {
        sparkline->sampled =
            g_signal_connect(machine, "sampled", G_CALLBACK(on_sampled), sparkline);
        on_sampled(machine, sparkline);
    }
}

static void snapshot(GtkWidget *widget, GtkSnapshot *snapshot)
{
    LodgeSparkline *sparkline = LODGE_SPARKLINE(widget);
    float width = (float)gtk_widget_get_width(widget),
          height = (float)gtk_widget_get_height(widget);
    float step = width / LODGE_MACHINE_SAMPLES;
    gfloat samples[LODGE_MACHINE_SAMPLES];
    guint count;
    GdkRGBA colour;

    if (!sparkline->machine) {
        return;
    }
    count = lodge_machine_item_get_samples(sparkline->machine, samples);
    gtk_style_context_get_color(gtk_widget_get_style_context(widget), &colour);
    for (guint i = 0; i < count; i++) {
        /* One pixel at least: a sample of nothing is no missing one. */
        float bar = MAX(samples[i] * height, 1);
        float left = width - (float)(count - i) * step;

        gtk_snapshot_append_color(
            snapshot, &colour,
            &GRAPHENE_RECT_INIT(left, height - bar, step > 3 ? step - 1 : step, bar));
    }
}

static void measure(GtkWidget *widget, GtkOrientation orientation, int other, int *minimum,
                    int *natural, int *minimum_baseline, int *natural_baseline)
{
    (void)widget, (void)other;
    *minimum = *natural = orientation == GTK_ORIENTATION_HORIZONTAL ? WIDTH_PX : HEIGHT_PX;
    *minimum_baseline = *natural_baseline = -1;
}

static void dispose(GObject *object)
{
    lodge_sparkline_set_machine(LODGE_SPARKLINE(object), NULL);
    G_OBJECT_CLASS(lodge_sparkline_parent_class)->dispose(object);
}

static void lodge_sparkline_class_init(LodgeSparklineClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    widget_class->snapshot = snapshot;
    widget_class->measure = measure;
    gtk_widget_class_set_css_name(widget_class, "sparkline");
    gtk_widget_class_set_accessible_role(widget_class, GTK_ACCESSIBLE_ROLE_IMG);
}

static void lodge_sparkline_init(LodgeSparkline *sparkline)
{
    gtk_widget_set_overflow(GTK_WIDGET(sparkline), GTK_OVERFLOW_HIDDEN);
}
