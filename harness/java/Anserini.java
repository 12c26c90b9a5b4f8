package retrieval_harness;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.index.IndexableField;
import org.apache.lucene.search.Query;

/** Anserini's own documents, queries and hits. Its classes are of a later Java than this one, so they are looked up. */
public final class Anserini {
  private Anserini() {}

  /** What a generator of documents makes of ids and contents. */
  public static List<Collection<IndexableField>> documents(Object generator, byte[] ids, byte[] contents)
      throws ReflectiveOperationException {
    Class<?> kind = Class.forName("io.anserini.collection.JsonCollection$Document");
    Constructor<?> read = kind.getConstructor(JsonNode.class);
    Class<?> source = Class.forName("io.anserini.collection.SourceDocument");
    Method create = generator.getClass().getMethod("createDocument", source);
    ObjectMapper mapper = new ObjectMapper();
    String[] names = Texts.read(ids);
    List<Collection<IndexableField>> found = new ArrayList<>();
    for (String text : Texts.read(contents)) {
      JsonNode node = mapper.createObjectNode().put("id", names[found.size()]).put("contents", text);
      found.add(((Document) create.invoke(generator, read.newInstance(node))).getFields());
    }
    return found;
  }

  /** What a generator of queries makes of texts. */
  public static List<Query> queries(Object generator, String field, Analyzer analyzer, byte[] texts)
      throws ReflectiveOperationException {
    Method build = generator.getClass().getMethod("buildQuery", String.class, Analyzer.class, String.class);
    List<Query> found = new ArrayList<>();
    for (String text : Texts.read(texts)) {
      found.add((Query) build.invoke(generator, field, analyzer, text));
    }
    return found;
  }

  /** The hits of its ScoredDocs, as {@link Index#hits} gives those of Lucene. */
  public static byte[] hits(Object scored) throws ReflectiveOperationException {
    int[] documents = (int[]) scored.getClass().getField("lucene_docids").get(scored);
    float[] scores = (float[]) scored.getClass().getField("scores").get(scored);
    ByteBuffer answer = ByteBuffer.allocate(8 * documents.length).order(ByteOrder.LITTLE_ENDIAN);
    answer.asIntBuffer().put(documents);
    answer.position(4 * documents.length).asFloatBuffer().put(scores);
    return answer.array();
  }

  /** Forget the list of documents that AX samples from, which is kept whichever index it came from. */
  public static void forgetDocuments(String reranker) throws ReflectiveOperationException {
    Class.forName(reranker).getField("internalDocidsCache").set(null, null);
  }
}
