//! A blog with comments: posts and comments are ranges of one partition, so a transaction counts the comments of a
//! post.
//!
//! Posts sort newest first, and comments sort by post and then in the order in which they were written. Readers of the
//! blog see a list of posts. The number of comments shown for each post is always correct.

use crate::support::{Pattern, Result, fill, refused, requests};
use rowhouse_client::{Entity, ErrorKind, IfMatch, Stored, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "post_{number:inverted}")]
struct Post {
    #[entity(partition_key)]
    blog: String,
    number: u32,
    title: String,
    text: String,
    comments: i32,
    /// The number of the next comment. Numbers are never reused.
    next_comment: i32,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "comment_{post:06}_{number:06}")]
struct Comment {
    #[entity(partition_key)]
    blog: String,
    post: u32,
    number: u32,
    author: String,
    text: String,
}

fn post(number: u32) -> Post {
    let (title, text) = (format!("Post {number}"), "…".repeat(2000));
    Post { blog: "tables".into(), number, title, text, comments: 0, next_comment: 1 }
}

fn commented(post: &Stored<Post>, author: &str) -> Result<Transaction> {
    let Post { blog, number: post_number, comments, next_comment, .. } = post.entity.clone();
    let (author, text) = (author.to_owned(), "I agree.".to_owned());
    let comment = Comment { blog, post: post_number, number: u32::try_from(next_comment)?, author, text };
    let counted = Post { comments: comments + 1, next_comment: next_comment + 1, ..post.entity.clone() };
    Ok(Transaction::new().insert(&comment).replace(&counted, post))
}

/// Starts over if another client comments at the same time.
async fn comment(blog: &Table, post: u32, author: &str) -> Result {
    loop {
        let read = blog.get_by_key::<Post>(&Post::key_of("tables", post)?).await?;
        match blog.commit(commented(&read, author)?).await {
            // The other client has used the number of the comment, or has changed the post.
            Err(error) if [ErrorKind::Conflict, ErrorKind::PreconditionFailed].contains(&error.kind()) => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

async fn moderate(blog: &Table, post: u32, number: u32) -> Result {
    let read = blog.get_by_key::<Post>(&Post::key_of("tables", post)?).await?;
    let counted = Post { comments: read.comments - 1, ..read.entity.clone() };
    let key = Comment::key_of("tables", post, number)?;
    let deleted = Transaction::new().delete(key.partition.as_str(), key.row.as_str(), IfMatch::Any);
    blog.commit(deleted.replace(&counted, &read)).await?;
    Ok(())
}

/// Deletes a post with its comments. The last transaction deletes the post, on condition that no client has commented.
/// An interrupted deletion can therefore be repeated, and no comment remains.
async fn delete_post(blog: &Table, post: u32) -> Result {
    let key = Post::key_of("tables", post)?;
    let read = blog.get_by_key::<Post>(&key).await?;
    let prefix = format!("comment_{post:06}_");
    let query = blog.query::<Comment>().partition("tables").row_prefix(&prefix);
    let rows = query.select(|comment| comment.row_key).collect().await?;
    let delete = |all: Transaction, row: &String| all.delete("tables", row, IfMatch::Any);
    let (last, others) = rows.split_at(rows.len().min(99));
    for chunk in others.chunks(100) {
        blog.commit(chunk.iter().fold(Transaction::new(), delete)).await?;
    }
    blog.commit(last.iter().fold(Transaction::new(), delete).delete("tables", key.row.as_str(), &read)).await?;
    Ok(())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("blog").await?;
    let blog = pattern.table("blog").await?;
    let posts: Vec<_> = (1..=30).map(post).collect();
    pattern.step("publish 30 posts", requests(1).written(30), fill(&blog, &posts)).await?;

    let read = blog.get_by_key::<Post>(&Post::key_of("tables", 7)?).await?;
    let cost = requests(2).examined(1).returned(1).written(2);
    pattern.step("comment on a post", cost, comment(&blog, 7, "ada")).await?;
    // A second reader opened the post before the first comment, so both comments would get the same number.
    let late = commented(&read, "emmy")?;
    let error = pattern.step("comment on an old version", requests(1), refused(blog.commit(late))).await?;
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::Conflict, Some(0)));
    pattern.step("read the post again and repeat", cost, comment(&blog, 7, "emmy")).await?;

    let list = blog.query::<Post>().partition("tables").row_prefix("post_").take(10).select(|p| (p.title, p.comments));
    let cost = requests(1).examined(11).returned(10);
    let titles = pattern.step("list the latest ten posts, without texts", cost, list.collect()).await?;
    assert_eq!(titles.first(), Some(&("Post 30".to_owned(), 0)));

    let key = Post::key_of("tables", 7)?;
    let comments = blog.query::<Comment>().partition("tables").row_prefix("comment_000007_");
    let show = async { tokio::try_join!(blog.get_by_key::<Post>(&key), comments.collect()) };
    let cost = requests(2).examined(3).returned(3);
    let (shown, comments) = pattern.step("show a post with its comments", cost, show).await?;
    assert_eq!((shown.comments, comments.len()), (2, 2));

    let cost = requests(2).examined(1).returned(1).written(2);
    pattern.step("delete a comment", cost, moderate(&blog, 7, 1)).await?;
    pattern.step("comment after that", cost, comment(&blog, 7, "grace")).await?;
    let comments = blog.query::<Comment>().partition("tables").row_prefix("comment_").collect().await?;
    let numbers: Vec<_> = comments.iter().map(|comment| (comment.number, comment.author.as_str())).collect();
    assert_eq!(numbers, [(2, "emmy"), (3, "grace")]);

    let cost = requests(3).examined(3).returned(3).written(3);
    pattern.step("delete a post with its comments", cost, delete_post(&blog, 7)).await?;
    assert_eq!(blog.query::<Comment>().partition("tables").row_prefix("comment_").first().await?, None);

    pattern.finish().await
}
