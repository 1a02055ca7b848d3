//! Messages that are taken, claimed, sent and settled.

use crate::place::{Place, WORKERS, all_sent, drained, lost, read_store, sink};
use crate::{
    FLUSHES, MESSAGES_MAX, WRITES, died, dying, hand_in, hand_in_all, is_up, left_by, nths, written,
};

/// The first few of each fall into the start, and into taking over what the last life left.
const SHORT: [(&str, &[u32]); 2] =
    [(WRITES, &[1, 3, 8, 21, 40, 80, 160, 250]), (FLUSHES, &[1, 2, 3, 8, 40, 80, 160])];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 1, 2, 3, 4, 5
async fn a_death_at_any_write_or_flush_loses_nothing_that_was_acknowledged() {
    let place = Place::new();
    let sink = sink().await;
    // A store that is there already, so that what is cut off is work.
    let server = place.start();
    place.ready().await;
    assert!(server.terminate().await.success());
    let data = place.data();
    let (mut told, mut kills, mut unborn) = (Vec::new(), 0, 0);
    for (call, short) in SHORT {
        for nth in nths(short) {
            let before = told.len();
            let mut server = place.start_with(dying(call, nth, &written(&data)), &data);
            let client = place.client();
            if is_up(&client, &mut server).await {
                let survived = hand_in_all(&client, &sink, &mut told).await;
                assert!(!survived, "{MESSAGES_MAX} messages took fewer than {nth} calls of {call}");
            }
            died(server, call, nth).await;
            kills += 1;
            unborn += usize::from(told.len() == before);
            assert_eq!(lost(&left_by(&data), &told), 0, "killed at {call} {nth}");
        }
    }
    let server = place.start();
    place.ready().await;
    let client = place.client();
    // Whatever was handed in last and never acknowledged is handed in once more: it is there once.
    told.push(hand_in(&client, &sink, told.len()).await.unwrap());
    drained(&client, told.len()).await;
    assert!(server.terminate().await.success());
    let repeated = all_sent(&read_store(&data, &told), &sink, &told);
    assert!(unborn * 2 < kills, "{unborn} of {kills} lives took no message: too many to prove anything");
    assert!(repeated <= kills * WORKERS, "{repeated} repeated by {kills} kills");
    println!("result sweep kills={kills} unborn={unborn} messages={} lost=0 repeated={repeated}", told.len());
}
