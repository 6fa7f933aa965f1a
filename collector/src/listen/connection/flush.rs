//! After each read: adds its counts to the metrics, and reports it once for all its frames.

use metrics::counter;
use tracing::warn;

use crate::listen::connection::Reader;
use crate::listen::metrics::Outcome;

impl Reader<'_> {
    pub(super) fn flush(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        let reported = std::mem::replace(&mut self.reported.data_frames, self.data_frames);
        let frames = self.data_frames - reported;
        self.permit.tell(frames, lost);
        for (count, reason) in [(lost.queue, "queue"), (lost.share, "peer_share")] {
            if count > 0 {
                counter!("egress_collector_observations_lost_total", "reason" => reason)
                    .increment(count);
            }
        }
        let unreadable =
            self.counts.pending(Outcome::BadEvent) + self.counts.pending(Outcome::BadMessage);
        if unreadable > 0
            && let Some(left_out) = self.ingest.log_limits.bad_events.allow()
        {
            let offset = self.frames.offset();
            warn!(
                events = unreadable,
                before_byte = offset,
                suppressed_lines = left_out,
                "events that are no dnstap, or hold no DNS response"
            );
        }
        if !self.reported.no_message
            && self.counts.pending(Outcome::NoMessage) > 0
            && let Some(left_out) = self.ingest.log_limits.no_message.allow()
        {
            self.reported.no_message = true;
            warn!(
                suppressed_lines = left_out,
                "events without a DNS message: the sender's `dnstap` line lacks `full`"
            );
        }
        if self.counts.has_rebindings() {
            let (rebindings, answers) = self.counts.take_rebindings();
            self.ingest.rebindings.tell(rebindings, answers);
        }
        self.counts.flush();
    }
}
