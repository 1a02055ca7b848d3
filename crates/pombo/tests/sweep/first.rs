//! The first start, which makes the store.

use crate::place::{Place, all_sent, drained, read_store, sink};
use crate::{FLUSHES, WRITES, died, dying, hand_in, is_up, nths, sound};

/// What fills the log ahead.
const FILLING: &str = "write";
const SHORT: [(&str, &[u32]); 3] = [(WRITES, &[1, 40, 105]), (FLUSHES, &[1, 4, 7]), (FILLING, &[1, 50])];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 1, 57
async fn a_first_start_that_dies_at_any_write_or_flush_leaves_what_the_next_one_makes_a_store_of() {
    let (mut kills, mut messages) = (0, 0);
    for (call, short) in SHORT {
        for nth in nths(short) {
            let place = Place::new();
            let sink = sink().await;
            let data = place.folder.path().canonicalize().unwrap().join("data");
            let files = if call == FILLING { vec![data.join("pombo.db-wal")] } else { Vec::new() };
            let mut server = place.start_with(dying(call, nth, &files), &data);
            let client = place.client();
            // It has fewer such calls: all of them were tried.
            if is_up(&client, &mut server).await {
                server.kill();
                break;
            }
            died(server, call, nth).await;
            kills += 1;

            let server = place.start();
            place.ready().await;
            let told = [hand_in(&client, &sink, 1).await.unwrap()];
            drained(&client, told.len()).await;
            assert!(server.terminate().await.success());
            assert_eq!(all_sent(&read_store(&data, &told), &sink, &told), 0);
            sound(&data, &format!("killed at {call} {nth}"));
            messages += told.len();
        }
    }
    assert!(kills >= 6, "{kills} deaths are too few to prove anything");
    println!("result sweep_first kills={kills} messages={messages} lost=0 repeated=0");
}
