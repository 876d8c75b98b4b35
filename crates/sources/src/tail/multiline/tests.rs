use super::*;

fn only(language: Language) -> Multiline {
    Multiline::of(language)
}

fn all() -> Multiline {
    Language::ALL.into_iter().fold(Multiline::default(), |all, (_, language)| all.with(language))
}

/// The lines that are joined, with what follows them left out.
fn joined(multiline: Multiline, text: &str) -> Vec<String> {
    let (mut records, mut states) = (Vec::<String>::new(), States::NONE);
    for line in text.lines() {
        states = if states.is_none() { states } else { states.after(multiline, line.as_bytes()) };
        if states.is_none() {
            states = States::begin(multiline, line.as_bytes());
            records.push(line.to_owned());
        } else {
            let record = records.last_mut().unwrap();
            record.push('\n');
            record.push_str(line);
        }
    }
    records
}

/// A trace between ordinary lines is one record, whatever other languages are looked for.
#[track_caller]
fn is_one(language: Language, trace: &str) {
    let text = format!("ready: 7 carts\n{trace}\n12:00:01 INFO shop.Cart - next (7)\n");
    for multiline in [only(language), all()] {
        let records = joined(multiline, &text);
        assert_eq!(records.len(), 3, "{multiline}: {records:#?}");
        assert_eq!(records[1], trace);
    }
    assert!(joined(Multiline::default(), &text).len() > 3);
}

#[test]
fn java() {
    is_one(
        Language::Java,
        "Exception in thread \"main\" java.lang.IllegalStateException: cannot open cart 7: no store
\tat shop.cart.Cart.open(Cart.java:41)
\tat shop.cart.Cart$Loader.lambda$load$0(Cart.java:97)
\tat java.base/java.util.ArrayList.forEach(ArrayList.java:1596)
\tat jdk.internal.reflect.GeneratedMethodAccessor12.invoke(Unknown Source)
\tSuppressed: java.io.IOException: already closed
\t\tat shop.store.Store.close(Store.java:12)
\t\t... 4 more
\tCaused by: java.lang.Error
\t\tat shop.store.Store.flush(Store.java:3)
Caused by: shop.store.StoreException: no route to store
\tat shop.store.Store.connect(Store.java:88)
\t... 23 more
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
\t... 25 common frames omitted",
    );
    is_one(
        Language::Java,
        "2026-11-23 12:00:00.123 ERROR [main] s.Cart : failed: java.lang.NullPointerException
        at shop.Cart.total(Cart.java:7) ~[cart.jar:1.2]
        at shop.Cart.pay(Cart.java:9) ~[cart.jar:1.2]",
    );
    let two = "java.lang.StackOverflowError\n\tat a.B.c(B.java:1)\njava.lang.Error: two\n\tat a.B.d(B.java:2)";
    assert_eq!(joined(only(Language::Java), two).len(), 2);
}

#[test]
fn python() {
    is_one(
        Language::Python,
        "Traceback (most recent call last):
  File \"/srv/cart.py\", line 12, in open
    return self.carts[key]
           ~~~~~~~~~~^^^^^
KeyError: 7

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File \"/srv/cart.py\", line 30, in <module>
    main()
  File \"/srv/cart.py\", line 14, in open
    raise CartError(key) from None
  [Previous line repeated 996 more times]
shop.errors.CartError: no cart 7

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File \"/srv/cart.py\", line 40, in <module>
    sys.exit(1)
KeyboardInterrupt",
    );
    is_one(
        Language::Python,
        "  + Exception Group Traceback (most recent call last):
  |   File \"/srv/cart.py\", line 3, in <module>
  |     raise ExceptionGroup(\"two\", errors)
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File \"/srv/cart.py\", line 1, in f
    | ValueError: 1
    +---------------- 2 ----------------
    | TypeError: 2
    +------------------------------------",
    );
    let two = "ERROR:root:Traceback (most recent call last):\n  File \"a\", line 1\nE: 1\nTraceback (most recent call last):\n  \
               File \"a\", line 1\nE: 2\nE: 3";
    assert_eq!(joined(only(Language::Python), two).len(), 3);
}

#[test]
fn go() {
    is_one(
        Language::Go,
        "panic: runtime error: invalid memory address or nil pointer dereference [recovered]
\tpanic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x48f2d1]

goroutine 1 gp=0xc000002380 m=0 mp=0x5a4e20 [running]:
panic({0x4b1a40?, 0x5a0e30?})
\t/usr/local/go/src/runtime/panic.go:792 +0x132
main.(*Cart).Total(...)
\t/src/cart.go:17
main.Sum[...](0xc0000b2000, {0x1, 0x2})
\t/src/cart.go:29 +0x1d
...23 frames elided...
main.main()
\t/src/main.go:5 +0x25

goroutine 18 [chan receive, 2 minutes]:
main.(*Store).loop(0xc000012345)
\t/src/store.go:44 +0x9c
created by main.open in goroutine 1
\t/src/store.go:12 +0x5e",
    );
    is_one(
        Language::Go,
        "fatal error: all goroutines are asleep - deadlock!

goroutine 1 [semacquire]:
sync.runtime_Semacquire(0xc0000b4010?)
\t/usr/local/go/src/runtime/sema.go:62 +0x25",
    );
    is_one(
        Language::Go,
        "2026/11/23 12:00:00 http: panic serving 10.0.0.7:5123: no cart
goroutine 20 [running]:
net/http.(*conn).serve.func1()
\t/usr/local/go/src/net/http/server.go:1947 +0xbe",
    );
}

#[test]
fn ruby() {
    is_one(
        Language::Ruby,
        "/srv/cart.rb:12:in 'Integer#/': divided by 0 (ZeroDivisionError)
\tfrom /srv/cart.rb:12:in 'Cart#share'
\t ... 10067 levels...
\tfrom /srv/cart.rb:30:in '<main>'
/srv/store.rb:3:in 'Hash#fetch': key not found: 7 (KeyError)
\tfrom /srv/store.rb:9:in 'Store#open'",
    );
    is_one(
        Language::Ruby,
        "E, [2026-11-23T12:00:00.123456 #7] ERROR -- : divided by 0 (ZeroDivisionError)
/srv/cart.rb:12:in `/'
/srv/cart.rb:30:in `<main>'",
    );
    is_one(
        Language::Ruby,
        "ActionView::Template::Error (undefined method `total' for nil):
  
app/models/cart.rb:7:in `share'
app/controllers/carts_controller.rb:12:in `show'",
    );
}

#[test]
fn dotnet() {
    is_one(
        Language::Dotnet,
        "Unhandled exception. System.InvalidOperationException: cannot open cart
 ---> Shop.StoreException: no route to store
 ---> System.ArgumentNullException: Value cannot be null. (Parameter 'id')
   at Shop.Store.Connect(String id) in /src/Store.cs:line 12
   --- End of inner exception stack trace ---
   at Shop.Store.Open()
--- End of stack trace from previous location ---
   at Shop.Cart.OpenAsync() in C:\\src\\Cart.cs:line 88
   --- End of inner exception stack trace ---
   at Shop.Program.<Main>$(String[] args) in /src/Program.cs:line 3",
    );
    is_one(
        Language::Dotnet,
        "      System.AggregateException: One or more errors occurred. (a) (b)
       ---> System.Exception: a
         at Shop.Cart.A()
         --- End of inner exception stack trace ---
         at Shop.Cart.B()

       ---> (Inner Exception #1) System.TimeoutException: b
         at Shop.Cart.C()<---",
    );
}

/// What ordinary programs say.
#[test]
fn other_lines_stay_alone() {
    let text = "12:00:00 INFO  shop.Cart - opened: 7
  at 12:00 it was closed
{\"level\":\"error\",\"message\":\"java.lang.Error: x\"}
\tat nothing.at.All(All.java:1)
... 7 more
Caused by: nothing
goroutine pool: 7
Error handling: done
from cart.rb:7
WARN  (cart) done
--- End of file
ValueError: 7";
    let records = joined(all(), text);
    assert_eq!(records.len(), text.lines().count(), "{records:#?}");
}
