/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bound to the job's properties. */
#include "app/widgets/job-row.h"

struct _LodgeJobRow {
    GtkBox parent_instance;
    LodgeJob *job;
    GtkLabel *title, *detail, *failures;
    GtkProgressBar *bar;
    GtkButton *cancel, *dismiss;
    GtkWidget *failed;
};

G_DEFINE_FINAL_TYPE(LodgeJobRow, lodge_job_row, GTK_TYPE_BOX)

static guint dismissed_signal;

static void on_cancel(LodgeJobRow *row)
{
    lodge_job_cancel(row->job);
}

static void on_copy(LodgeJobRow *row)
{
    gdk_clipboard_set_text(gtk_widget_get_clipboard(GTK_WIDGET(row)),
                           lodge_job_get_failures(row->job));
}

static void on_dismiss(LodgeJobRow *row)
{
    g_signal_emit(row, dismissed_signal, 0);
}

static void show(LodgeJobRow *row)
{
    const char *failures = lodge_job_get_failures(row->job);
    gboolean running = lodge_job_is_running(row->job);

    gtk_label_set_text(row->detail, lodge_job_get_detail(row->job));
    gtk_progress_bar_set_fraction(row->bar, lodge_job_get_fraction(row->job));
    gtk_widget_set_visible(GTK_WIDGET(row->bar), running);
    gtk_widget_set_visible(GTK_WIDGET(row->cancel), running);
    gtk_widget_set_visible(GTK_WIDGET(row->dismiss), !running);
    gtk_widget_set_visible(row->failed, failures != NULL);
    gtk_label_set_text(row->failures, failures ? failures : "");
}

static void dispose(GObject *object)
{
    g_clear_object(&LODGE_JOB_ROW(object)->job);
    G_OBJECT_CLASS(lodge_job_row_parent_class)->dispose(object);
}

static void lodge_job_row_class_init(LodgeJobRowClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    gtk_widget_class_set_template_from_resource(widget_class, "/org/lodgevm/Lodge/job-row.ui");
    gtk_widget_class_bind_template_child(widget_class, LodgeJobRow, title);
    gtk_widget_class_bind_template_child(widget_class, LodgeJobRow, detail);
    gtk_widget_class_bind_template_child(widget_class, LodgeJobRow, failures);
    gtk_widget_class_bind_template_child(widget_class, LodgeJobRow, failed);
    gtk_widget_class_bind_template_child(widget_class, LodgeJobRow, bar);
    gtk_widget_class_bind_template_child(widget_class, LodgeJobRow, cancel);
    gtk_widget_class_bind_template_child(widget_class, LodgeJobRow, dismiss);
    gtk_widget_class_bind_template_callback(widget_class, on_cancel);
    gtk_widget_class_bind_template_callback(widget_class, on_copy);
    gtk_widget_class_bind_template_callback(widget_class, on_dismiss);
    dismissed_signal = g_signal_new("dismissed", LODGE_TYPE_JOB_ROW, G_SIGNAL_RUN_LAST, 0, NULL,
                                    NULL, NULL, G_TYPE_NONE, 0);
}

static void lodge_job_row_init(LodgeJobRow *row)
{
    gtk_widget_init_template(GTK_WIDGET(row));
}

GtkWidget *lodge_job_row_new(LodgeJob *job)
{
    LodgeJobRow *row = g_object_new(LODGE_TYPE_JOB_ROW, NULL);

    row->job = g_object_ref(job);
    gtk_label_set_text(row->title, lodge_job_get_title(job));
    g_signal_connect_object(job, "notify", G_CALLBACK(show), row, G_CONNECT_SWAPPED);
    show(row);
    return GTK_WIDGET(row);
}

LodgeJob *lodge_job_row_get_job(LodgeJobRow *row)
{
    return row->job;
}
